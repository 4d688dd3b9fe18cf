// Where the $ref of a JSON Schema leads: $id, $anchor and relative addresses.
#pragma once

#include <string_view>

#include "base/result.h"
#include "text/grammar/schema_keywords.h"

namespace tandem::text::grammar {

// Rewrites every $ref that leads to a part of the schema to a JSON pointer from its root, "#/$defs/name", so that it
// can be understood wherever it is moved to. The others have their whole address afterwards; they are refused where
// they are used.
Status resolve_references(Json& root);

// What a JSON pointer ("", "/$defs/name") leads to, or null.
const Json* find_pointer(const Json& from, std::string_view pointer);

}  // namespace tandem::text::grammar
