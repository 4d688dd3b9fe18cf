// The tokens of a vocabulary by the bytes that they stand for, in the order that a walk over all of them takes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::text {

// In front of the text of a control token, as if it were part of it: no other token has this byte, and no text.
inline constexpr char kControlByte = '\xFF';

// Made once for a model; immutable.
class TokenTrie {
  public:
    // What each token adds in the middle of a text; of control tokens their name after kControlByte. Unknown and unused
    // ones stand for nothing; neither do the stop tokens of the tokenizer, which end a text.
    explicit TokenTrie(const Tokenizer& tokenizer);
    // The same from the bytes of each id; an empty text stands for nothing.
    TokenTrie(std::vector<std::string> tokens, std::vector<TokenId> stop_tokens);

    int vocab_size() const { return static_cast<int>(begins_.size()) - 1; }
    size_t mask_words() const { return (static_cast<size_t>(vocab_size()) + 31) / 32; }  // with a bit for each token
    bool contains(TokenId id) const { return id >= 0 && id < vocab_size(); }
    std::string_view bytes(TokenId id) const;
    const std::vector<TokenId>& stop_tokens() const { return stop_tokens_; }
    bool is_stop(TokenId id) const;
    size_t longest() const { return longest_; }  // bytes of a token

    // Every prefix of a token is a node. They are numbered so that what follows a prefix comes right after it: the
    // nodes below `i` are i + 1 ... nodes()[i].end - 1. Node 0 is the empty prefix of most kinds of tokens; those of
    // plain text, and nothing else, have nodes of their own below plain_root().
    struct Node {
        uint32_t end = 0;
        uint32_t tokens = 0;  // the first in node_tokens(); those of the node after it follow
        uint16_t depth = 0;
        uint8_t byte = 0;
        // The most characters that follow it, if all are plain_text(); the last may be cut. Else kNotPlain.
        uint8_t plain_below = kNotPlain;
    };
    static constexpr uint8_t kNotPlain = UINT8_MAX;
    uint32_t plain_root() const { return plain_root_; }
    std::span<const Node> nodes() const { return std::span(nodes_).first(nodes_.size() - 1); }
    std::span<const TokenId> tokens(uint32_t node) const { return tokens(node, node + 1); }
    std::span<const TokenId> tokens(uint32_t first, uint32_t last) const {
        return std::span(node_tokens_).subspan(nodes_[first].tokens, nodes_[last].tokens - nodes_[first].tokens);
    }
    // A bit for each token below plain_root() that has at most so many characters, 1 to most_plain().
    std::span<const uint32_t> plain_tokens(uint32_t characters) const { return plain_tokens_[characters - 1]; }
    uint32_t most_plain() const { return static_cast<uint32_t>(plain_tokens_.size()); }
    // The nodes that go on with a byte, ascending.
    std::span<const uint32_t> nodes_before(uint8_t byte) const { return before_[byte]; }

  private:
    void build();
    // The nodes of tokens that are in order of their bytes.
    void add_nodes(std::span<const TokenId> order, std::vector<uint32_t>& parents);
    // Of `characters` each.
    void add_plain(std::span<const TokenId> tokens, std::span<const uint32_t> characters);
    // `parents`: of each node but the roots.
    void mark_plain(const std::vector<uint32_t>& parents);

    std::string bytes_;
    std::vector<uint32_t> begins_;  // by id, and the end
    std::vector<TokenId> stop_tokens_;
    std::vector<Node> nodes_;  // and one after the last
    std::vector<TokenId> node_tokens_;
    uint32_t plain_root_ = 0;
    std::vector<std::vector<uint32_t>> plain_tokens_;
    std::array<std::vector<uint32_t>, 256> before_;  // by byte
    size_t longest_ = 0;
};

}  // namespace tandem::text
