// Anthropic's API: /v1/messages and /v1/messages/count_tokens.
#pragma once

#include "server/dialect.h"

namespace tandem::server {

extern const Dialect kAnthropicMessages;

// /v1/messages/count_tokens: the same body without max_tokens. The Ask is only for its prompt.
Reply<Ask> parse_anthropic_count(const Json& body);
Json anthropic_count(int prompt_tokens);

}  // namespace tandem::server
