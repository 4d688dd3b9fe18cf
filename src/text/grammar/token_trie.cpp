#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/tokenizer_parts.h"

namespace tandem::text {

namespace {

std::vector<std::string> token_texts(const Tokenizer& tokenizer) {
    const Vocabulary& vocab = tokenizer.parts().vocab;
    std::vector<std::string> texts(static_cast<size_t>(vocab.size()));
    for (TokenId id = 0; id < vocab.size(); ++id) {
        const PieceKind kind = vocab[id].kind;
        const bool is_text = kind == PieceKind::normal || kind == PieceKind::user_defined || kind == PieceKind::byte;
        if (is_text) texts[static_cast<size_t>(id)] = tokenizer.token_bytes(id);
    }
    return texts;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : TokenTrie(token_texts(tokenizer), tokenizer.stop_tokens()) {}

TokenTrie::TokenTrie(std::vector<std::string> tokens, std::vector<TokenId> stop_tokens)
    : stop_tokens_(std::move(stop_tokens)) {
    for (const TokenId id : stop_tokens_) {
        if (id >= 0 && static_cast<size_t>(id) < tokens.size()) tokens[static_cast<size_t>(id)].clear();
    }
    begins_.reserve(tokens.size() + 1);
    for (const std::string& token : tokens) {
        begins_.push_back(static_cast<uint32_t>(bytes_.size()));
        bytes_ += token;
        longest_ = std::max(longest_, token.size());
    }
    begins_.push_back(static_cast<uint32_t>(bytes_.size()));
    std::sort(stop_tokens_.begin(), stop_tokens_.end());
    build();
}

std::string_view TokenTrie::bytes(TokenId id) const {
    if (!contains(id)) return {};
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(begins_[i], begins_[i + 1] - begins_[i]);
}

bool TokenTrie::is_stop(TokenId id) const {
    return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), id);
}

void TokenTrie::build() {
    std::vector<TokenId> order;
    order.reserve(begins_.size());
    for (TokenId id = 0; id < vocab_size(); ++id) {
        if (!bytes(id).empty()) order.push_back(id);
    }
    // As unsigned bytes: string_view compares so.
    std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        const int difference = bytes(a).compare(bytes(b));
        return difference != 0 ? difference < 0 : a < b;
    });
    std::vector<uint32_t> open = {0};  // the nodes of the prefixes of the last token
    nodes_.emplace_back();
    node_tokens_.reserve(order.size());
    std::string_view last;
    for (const TokenId id : order) {
        const std::string_view text = bytes(id);
        const auto common =
            static_cast<size_t>(std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
        while (open.size() > common + 1) {
            nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
            open.pop_back();
        }
        for (size_t i = common; i < text.size(); ++i) {
            open.push_back(static_cast<uint32_t>(nodes_.size()));
            nodes_.push_back({.end = 0,
                              .tokens = static_cast<uint32_t>(node_tokens_.size()),
                              .depth = static_cast<uint16_t>(i + 1),
                              .byte = static_cast<uint8_t>(text[i])});
        }
        node_tokens_.push_back(id);
        last = text;
    }
    for (const uint32_t node : open) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({.end = 0, .tokens = static_cast<uint32_t>(node_tokens_.size())});
}

}  // namespace tandem::text
