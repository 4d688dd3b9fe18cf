// The grammar that a user wants an answer held to.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/compiled_grammar.h"

namespace tandem::user {

// "json": any JSON object. What begins with a brace is a JSON Schema, what has a "::=" is GBNF. All else is a file with
// either.
Result<text::CompiledGrammarPtr> read_grammar(std::string_view value);

}  // namespace tandem::user
