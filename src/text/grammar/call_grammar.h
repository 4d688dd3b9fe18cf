// The front end for calls of tools: how a family writes them, and what their schemas allow.
#pragma once

#include "base/result.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

// Errors name the tool.
Result<Grammar> translate_calls(const CallRules& rules);

}  // namespace tandem::text::grammar
