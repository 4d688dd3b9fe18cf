// OpenAI's newer API, /v1/responses, without memory: nothing is stored, and nothing stored can be referred to.
#pragma once

#include "server/dialect.h"

namespace tandem::server {

extern const Dialect kResponses;

}  // namespace tandem::server
