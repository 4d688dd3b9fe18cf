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
        std::string& text = texts[static_cast<size_t>(id)];
        if (is_text) text = tokenizer.token_bytes(id);
        if (text.find(kControlByte) != std::string::npos) text.clear();
        if (kind == PieceKind::control) text = kControlByte + std::string(tokenizer.piece(id));
    }
    return texts;
}

constexpr uint32_t kMostPlain = 32;  // characters: of longer tokens there are few

// The sequence of plain_text() that begins with each byte, if there is one.
using FirstBytes = std::array<const grammar::ByteSequence*, 256>;

FirstBytes plain_first_bytes() {
    FirstBytes characters{};
    for (const grammar::ByteSequence& sequence : grammar::plain_text()) {
        for (int byte = sequence.bytes[0].first; byte <= sequence.bytes[0].last; ++byte)
            characters[static_cast<size_t>(byte)] = &sequence;
    }
    return characters;
}

// How many characters of plain text a token is, the last of which may be cut; 0: it is something else, or too long.
uint32_t plain_characters(const FirstBytes& first_bytes, std::string_view text) {
    uint32_t characters = 0;
    for (size_t at = 0; at < text.size(); ++characters) {
        const grammar::ByteSequence* const sequence = first_bytes[static_cast<uint8_t>(text[at])];
        if (sequence == nullptr || characters == kMostPlain) return 0;
        for (int i = 0; i < sequence->length && at < text.size(); ++i, ++at) {
            const auto [first, last] = sequence->bytes[static_cast<size_t>(i)];
            if (static_cast<uint8_t>(text[at]) < first || static_cast<uint8_t>(text[at]) > last) return 0;
        }
    }
    return characters;
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
    const FirstBytes first_bytes = plain_first_bytes();
    std::vector<TokenId> order;
    std::vector<uint32_t> characters(static_cast<size_t>(vocab_size()));  // of plain text
    order.reserve(begins_.size());
    for (TokenId id = 0; id < vocab_size(); ++id) {
        if (bytes(id).empty()) continue;
        order.push_back(id);
        characters[static_cast<size_t>(id)] = plain_characters(first_bytes, bytes(id));
    }
    const auto plain = std::partition(order.begin(), order.end(),
                                      [&](TokenId id) { return characters[static_cast<size_t>(id)] == 0; });
    // As unsigned bytes: string_view compares so.
    const auto by_bytes = [&](TokenId a, TokenId b) {
        const int difference = bytes(a).compare(bytes(b));
        return difference != 0 ? difference < 0 : a < b;
    };
    std::sort(order.begin(), plain, by_bytes);
    std::sort(plain, order.end(), by_bytes);
    std::vector<uint32_t> parents;
    node_tokens_.reserve(order.size());
    add_nodes(std::span(order.begin(), plain), parents);
    plain_root_ = static_cast<uint32_t>(nodes_.size());
    add_nodes(std::span(plain, order.end()), parents);
    add_plain(std::span(plain, order.end()), characters);
    for (uint32_t node = 0; node < nodes_.size(); ++node) {
        for (uint32_t child = node + 1; child < nodes_[node].end; child = nodes_[child].end)
            before_[nodes_[child].byte].push_back(node);
    }
    mark_plain(parents);
    nodes_.push_back({.end = 0, .tokens = static_cast<uint32_t>(node_tokens_.size())});
}

void TokenTrie::add_nodes(std::span<const TokenId> order, std::vector<uint32_t>& parents) {
    const auto root = static_cast<uint32_t>(nodes_.size());
    std::vector<uint32_t> open = {root};  // the nodes of the prefixes of the last token
    nodes_.push_back({.end = 0, .tokens = static_cast<uint32_t>(node_tokens_.size())});
    parents.push_back(root);
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
}

void TokenTrie::add_plain(std::span<const TokenId> tokens, std::span<const uint32_t> characters) {
    uint32_t most = 0;
    for (const TokenId id : tokens) most = std::max(most, characters[static_cast<size_t>(id)]);
    plain_tokens_.assign(most, std::vector<uint32_t>(mask_words()));
    for (const TokenId id : tokens) {
        const auto i = static_cast<size_t>(id);
        plain_tokens_[characters[i] - 1][i / 32] |= 1U << (i % 32);
    }
    for (size_t i = 1; i < plain_tokens_.size(); ++i) {
        for (size_t word = 0; word < mask_words(); ++word) plain_tokens_[i][word] |= plain_tokens_[i - 1][word];
    }
}

void TokenTrie::mark_plain(const std::vector<uint32_t>& parents) {
    const FirstBytes characters = plain_first_bytes();
    // Characters below a node when so many bytes of one are still to come: [0], [1], [2]; and when the node's own byte
    // begins one: [3].
    std::vector<std::array<uint8_t, 4>> below(nodes_.size());
    const auto tell = [](uint8_t& parent, bool fits, int characters_more, uint8_t child) {
        const bool plain = parent != kNotPlain && fits && child != kNotPlain;
        parent = plain ? static_cast<uint8_t>(std::max<int>(parent, characters_more + child)) : kNotPlain;
    };
    for (size_t i = nodes_.size() - 1; i > 0; --i) {  // a node's own are known before it tells its parent
        if (i == plain_root_) continue;
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
