// Fields that hold an answer to a form: response_format, and what other servers call it.
#pragma once

#include "server/field_rules.h"

namespace tandem::server {

// response_format of OpenAI; grammar and json_schema of llama-server; guided_* and structured_outputs of vLLM. At most
// one of them.
FieldRules format_fields();

}  // namespace tandem::server
