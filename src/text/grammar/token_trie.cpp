#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/grammar/code_points.h"
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
    std::vector<uint32_t> parents = {0};
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
            parents.push_back(open.back());
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
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
        for (uint32_t child = node + 1; child < nodes_[node].end; child = nodes_[child].end)
            before_[nodes_[child].byte].push_back(node);
    }
    mark_plain(parents);
    nodes_.push_back({.end = 0, .tokens = static_cast<uint32_t>(node_tokens_.size())});
}

void TokenTrie::mark_plain(const std::vector<uint32_t>& parents) {
    std::array<const grammar::ByteSequence*, 256> characters{};  // by first byte
    for (const grammar::ByteSequence& sequence : grammar::plain_text()) {
        for (int byte = sequence.bytes[0].first; byte <= sequence.bytes[0].last; ++byte)
            characters[static_cast<size_t>(byte)] = &sequence;
    }
    // Characters below a node when so many bytes of one are still to come: [0], [1], [2]; and when the node's own byte
    // begins one: [3].
    std::vector<std::array<uint8_t, 4>> below(nodes_.size());
    const auto tell = [](uint8_t& parent, bool fits, int characters_more, uint8_t child) {
        const bool plain = parent != kNotPlain && fits && child != kNotPlain;
        parent = plain ? static_cast<uint8_t>(std::max<int>(parent, characters_more + child)) : kNotPlain;
    };
    for (size_t i = nodes_.size() - 1; i > 0; --i) {  // a node's own are known before it tells its parent
        const uint8_t byte = nodes_[i].byte;
        const bool continues = byte >= 0x80 && byte < 0xC0;
        const grammar::ByteSequence* const begins = characters[byte];
        std::array<uint8_t, 4>& parent = below[parents[i]];
        tell(parent[0], begins != nullptr, 1, begins == nullptr || begins->length == 1 ? below[i][0] : below[i][3]);
        tell(parent[1], continues, 0, below[i][0]);
        tell(parent[2], continues, 0, below[i][1]);
        const grammar::ByteSequence* const begun = characters[nodes_[parents[i]].byte];
        if (begun == nullptr || begun->length == 1) continue;
        const bool second = byte >= begun->bytes[1].first && byte <= begun->bytes[1].last;
        tell(parent[3], second, 0, below[i][static_cast<size_t>(begun->length) - 2]);
    }
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i].plain_below = below[i][0];
}

}  // namespace tandem::text
