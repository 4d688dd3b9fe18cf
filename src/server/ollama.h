// Ollama's API: /api/chat, /api/generate, /api/embed, and what it says about models.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "server/dialect.h"
#include "server/model_card.h"

namespace tandem::server {

const Dialect& ollama_chat();
const Dialect& ollama_generate();
const Dialect& ollama_embed();

// Ollama's way to load a model, or to unload it (keep_alive of 0): nothing is asked.
bool only_loads(const Ask& ask);
// The answer to it; with `generate`, that of /api/generate.
std::string ollama_loaded(const Ask& ask, const AnswerHead& head, bool generate);

std::string ollama_tags(const std::vector<ModelCard>& models);
std::string ollama_ps(const std::vector<ModelCard>& models, std::chrono::system_clock::time_point now);
std::string ollama_show(const ModelCard& model);
std::string ollama_version(std::string_view server_version);

// The model that a request is about: "model", or "name" as older clients write it.
Reply<std::string> ollama_model_name(const Json& body);
// Models are files on this machine and nothing is fetched: pulling what is there succeeds, anything else is refused.
Reply<std::string> ollama_pull(const Json& body, bool is_there);

}  // namespace tandem::server
