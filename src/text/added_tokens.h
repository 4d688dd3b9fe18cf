// Tokens that are found in a text as they stand, before it is tokenized.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"
#include "text/trie.h"

namespace tandem::text {

struct AddedToken {
    TokenId id = 0;
    std::string content;
    bool special = false;      // skipped unless special tokens are parsed
    bool single_word = false;  // not inside a word
    bool lstrip = false;       // takes the spaces before it along
    bool rstrip = false;       // and those after it
};

class AddedTokens {
  public:
    struct Segment {
        std::string_view text;
        std::optional<TokenId> id;  // of the token that it is
    };

    AddedTokens() = default;
    explicit AddedTokens(std::vector<AddedToken> tokens);

    // Appends the tokens and the texts between them, none empty, in order. The leftmost and longest token counts.
    void split(std::string_view text, bool parse_special, std::vector<Segment>& out) const;

  private:
    std::vector<AddedToken> tokens_;
    Trie trie_;
};

}  // namespace tandem::text
