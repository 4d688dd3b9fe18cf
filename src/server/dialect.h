// Dialect: one API of the server as three functions, free of sockets and of engines.
#pragma once

#include <memory>

#include "server/ask.h"
#include "server/delta.h"
#include "server/field_rules.h"

namespace tandem::server {

struct Dialect {
    // What becomes of the fields of a request.
    const FieldRules& (*fields)() = nullptr;
    // The body of a request. Errors name the field and what it may be; check() of the Ask comes later.
    Reply<Ask> (*parse)(const Json& body) = nullptr;
    // Null for a dialect of embeddings only.
    std::unique_ptr<Writer> (*writer)(const Ask& ask, AnswerHead head) = nullptr;
    // The body of an answer to Ask::embedding; null where there are none.
    std::string (*embeddings)(const Ask& ask, const AnswerHead& head, const Embeddings& embeddings) = nullptr;
    // The body of the answer to an Ask that only loads or unloads a model; null where there is no such thing.
    std::string (*loaded)(const Ask& ask, const AnswerHead& head) = nullptr;
    // The body of an error.
    std::string (*error)(const ApiError& error) = nullptr;
    // A call of a tool that max_tokens cut off is still one, with half of its arguments; otherwise it is content.
    bool has_cut_calls = false;
};

}  // namespace tandem::server
