// The normalization rules that SentencePiece compiles into a model: a double-array trie and its replacement texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text {

class Charsmap {
  public:
    // The blob "precompiled_charsmap"; an empty one has no rules.
    static Result<Charsmap> parse(std::string_view blob);

    bool empty() const { return units_.empty(); }

    struct Rule {
        size_t length;                 // bytes of the text it replaces
        std::string_view replacement;  // may be empty
    };
    // The rule for the longest or the shortest prefix of `text` that has one.
    std::optional<Rule> longest(std::string_view text) const { return find(text, true); }
    std::optional<Rule> shortest(std::string_view text) const { return find(text, false); }

  private:
    std::optional<Rule> find(std::string_view text, bool longest) const;

    std::vector<uint32_t> units_;
    std::string replacements_;  // each ends with a NUL
};

}  // namespace tandem::text
