// OpenAI's API: chat completions, completions, embeddings, models.
#pragma once

#include <span>

#include "server/dialect.h"
#include "server/model_card.h"

namespace tandem::server {

extern const Dialect kOpenAiChat;
extern const Dialect kOpenAiCompletions;
extern const Dialect kOpenAiEmbeddings;

// {"error": {"message", "type", "param", "code", ...}}
Json openai_error(const ApiError& error);
Json openai_usage(const engine::Usage& usage, int reasoning_tokens);
Json openai_model(const ModelCard& card);
Json openai_models(std::span<const ModelCard> cards);

const FieldRules& openai_chat_fields();
const FieldRules& openai_completion_fields();
const FieldRules& openai_embedding_fields();

// The parts of the dialects, for the APIs that are like them.
Reply<Ask> parse_openai_chat(const Json& body);
Reply<Ask> parse_openai_completion(const Json& body);
Reply<Ask> parse_openai_embeddings(const Json& body);
// "input" of embeddings, "prompt" of completions: text, token ids, or an array of either.
Reply<std::vector<Prompt>> parse_prompts(const Json& value, const std::string& name);

}  // namespace tandem::server
