// Tools for models whose chat template does not know them: told in plain words, called in plain JSON.
#pragma once

#include <string>

#include "server/ask.h"

namespace tandem::server {

// The messages with the tools described by the system message, and earlier calls and results written as text.
Json messages_with_tools(const Ask& ask);

// The messages with ids of calls as Mistral's templates insist on: nine letters and digits. Whatever the id was that a
// client sends (ours are longer, Ollama's clients have none), it becomes the same one each time.
Json messages_with_short_ids(Json messages);

// A JSON Schema of a call of one of the tools, or of the named one: {"name": ..., "arguments": {...}}.
std::string call_schema(const Ask& ask);

}  // namespace tandem::server
