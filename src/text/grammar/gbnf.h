// The front end for GBNF, the notation of llama.cpp's grammars.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

// root ::= "yes" | "no" [.!]* other{2,5}   # a comment
// Errors are one line: "grammar, line 3: ...".
Result<Grammar> parse_gbnf(std::string_view text);

}  // namespace tandem::text::grammar
