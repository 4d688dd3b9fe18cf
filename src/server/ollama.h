// Ollama's API: /api/chat, /api/generate, /api/embed and /api/embeddings, and what it says about models.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "server/dialect.h"
#include "server/model_card.h"

namespace tandem::server {

extern const Dialect kOllamaChat;
extern const Dialect kOllamaGenerate;
extern const Dialect kOllamaEmbed;
extern const Dialect kOllamaEmbeddings;  // as older clients ask: one prompt, and nothing but its numbers

// Of "options".
const FieldRules& ollama_option_fields();

Json ollama_tags(std::span<const ModelCard> models);
Json ollama_ps(std::span<const ModelCard> models, std::chrono::system_clock::time_point now);
Json ollama_show(const ModelCard& model);
Json ollama_version(std::string_view server_version);

// The model that a request is about: "model", or "name" as older clients write it.
Reply<std::string> ollama_model_name(const Json& body);

}  // namespace tandem::server
