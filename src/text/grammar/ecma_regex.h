// The regular expressions of JSON Schema's "pattern", ECMA-262 without what is not regular.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

struct RegexGrammar {
    NodeId node = 0;
    uint64_t min_length = 0;  // characters
    uint64_t max_length = 0;  // kUnbounded when there is none
};

// How characters of a set are written in the text, such as with escapes.
using WriteCharacters = std::function<NodeId(const CodePoints&)>;

// The texts that the pattern is found in: the whole of them, so what is not anchored begins and ends with anything.
// Lookaround, backreferences, word boundaries and \p classes are refused.
Result<RegexGrammar> parse_ecma_regex(Grammar& grammar, std::string_view pattern, const WriteCharacters& write);

}  // namespace tandem::text::grammar
