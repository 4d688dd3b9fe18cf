#include "server/affinity.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/sse.h"

namespace tandem::server {

namespace {

// Of a prompt that is no conversation.
constexpr size_t kPrefixBytes = 1024;
constexpr size_t kPrefixTokens = 256;

// FNV-1a: the same on every replica and in every version. Whoever makes two prompts with one key sends both to one
// replica, no more.
class Hash {
  public:
    void add(std::string_view text) {
        for (const char byte : text) {
            value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
        }
        value_ = (value_ ^ 0xFF) * 0x100000001B3;  // no byte of a text: "ab" and "c" are not "a" and "bc"
    }
    std::string text() const { return fmt::format("{:016x}", value_); }

  private:
    uint64_t value_ = 0xCBF29CE484222325;
};

void add_messages(Hash& hash, const Json& messages) {
    for (const Json& message : messages) {
        hash.add(dump(message));
        const auto role = message.find("role");
        if (role != message.end() && *role == "user") return;
    }
}

void add_prompt(Hash& hash, const Prompt& prompt) {
    if (const auto* const text = std::get_if<std::string>(&prompt)) {
        return hash.add(std::string_view(*text).substr(0, kPrefixBytes));
    }
    const auto& tokens = std::get<std::vector<text::TokenId>>(prompt);
    const size_t count = std::min(tokens.size(), kPrefixTokens);
    for (size_t i = 0; i < count; ++i) hash.add(std::to_string(tokens[i]));
}

}  // namespace

std::string prefix_key(const Ask& ask) {
    if (ask.kind == AskKind::embedding || ask.only_loads()) return {};
    Hash hash;
    hash.add(ask.model);
    hash.add(ask.cache_salt);
    if (ask.kind == AskKind::chat) {
        add_messages(hash, ask.messages);
    } else if (!ask.prompts.empty()) {
        add_prompt(hash, ask.prompts.front());
    }
    return hash.text();
}

}  // namespace tandem::server
