// The schema that holds an answer to the call of a tool.
#pragma once

#include <string>

#include "server/ask.h"

namespace tandem::server {

// A JSON Schema of a call of one of the tools, or of the named one: {"name": ..., "arguments": {...}}.
std::string call_schema(const Ask& ask);

}  // namespace tandem::server
