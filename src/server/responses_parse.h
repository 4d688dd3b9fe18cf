// Reads the bodies of /v1/responses.
#pragma once

#include "server/field_rules.h"

namespace tandem::server {

const FieldRules& responses_fields();
Reply<Ask> parse_responses(const Json& body);

}  // namespace tandem::server
