// Reads the bodies of /v1/responses.
#pragma once

#include "server/ask.h"

namespace tandem::server {

Reply<Ask> parse_responses(const Json& body);

}  // namespace tandem::server
