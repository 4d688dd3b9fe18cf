// GrammarCache: grammars made ready for one model, kept for the requests that bring the same again.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/engine.h"
#include "server/ask.h"

namespace tandem::server {

class GrammarCache {
  public:
    using Masks = std::shared_ptr<const text::TokenMasks>;

    explicit GrammarCache(const engine::Engine& engine) : engine_(engine) {}

    // Null for plain text; an error names what is wrong with the schema or the grammar.
    Reply<Masks> find(const ResponseFormat& format);
    Reply<Masks> find(const text::CallRules& calls);

  private:
    template <typename Compile>
    Reply<Masks> find_or_make(const std::string& key, const char* field, Compile compile);

    static constexpr size_t kMost = 32;

    struct Item {
        std::string key;
        Masks masks;
    };

    const engine::Engine& engine_;
    std::mutex mutex_;
    std::list<Item> items_;  // last used first
    std::unordered_map<std::string, std::list<Item>::iterator> by_key_;
};

}  // namespace tandem::server
