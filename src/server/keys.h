// Keys: who may use the server, and who may administrate it, from a file of API keys.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::server {

// Loading and unloading of models, and whatever else changes the server for everybody, is `admin`.
enum class Scope : uint8_t { use, admin };

struct Key {
    std::string name;  // for logs and metrics, and as the salt of cached prompts; never the secret
    bool may_use = false;
    bool may_administrate = false;
    std::array<uint8_t, 32> digest = {};  // SHA-256 of the secret

    bool has(Scope scope) const { return scope == Scope::use ? may_use : may_administrate; }
};

class Keys {
  public:
    // Lines of `key scope[,scope] [name]`, the scopes being use and admin; # begins a comment. `source` stands in
    // messages, which never show a key.
    static Result<Keys> parse(std::string_view text, std::string_view source);
    // Refuses a file that others than its owner may read or write, but for one of root's that our group may read.
    static Result<Keys> load(const std::filesystem::path& path);

    bool empty() const { return keys_.empty(); }
    // Null: no such key. Takes the same time for any `secret` of a length.
    const Key* find(std::string_view secret) const;

  private:
    std::vector<Key> keys_;
};

}  // namespace tandem::server
