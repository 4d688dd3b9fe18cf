// The front end for JSON Schema; docs/structured-output.md says what is supported.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

// Errors are one line that names the place by its JSON pointer: "schema at /properties/age/not: ...".
Result<Grammar> translate_schema(std::string_view text);

// The schema, within the limits and with its references resolved.
Result<nlohmann::ordered_json> parse_schema(std::string_view text);

Grammar json_object_grammar();

}  // namespace tandem::text::grammar
