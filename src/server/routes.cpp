#include "server/routes.h"

#include "server/anthropic.h"
#include "server/endpoints.h"
#include "server/ollama.h"
#include "server/openai.h"
#include "server/responses.h"
#include "server/sse.h"

namespace tandem::server {

std::span<const Route> routes() {
    static const Route all[] = {
        {"GET", "/", Access::open, nullptr, Endpoints::root},
        {"GET", "/health", Access::open, nullptr, Endpoints::health},
        {"GET", kMetricsPath, Access::use, nullptr, Endpoints::metrics},
        {"GET", "/openapi.json", Access::open, nullptr, Endpoints::description},
        {"GET", "/api/tandem/live", Access::use, nullptr, Endpoints::live},
        {"POST", "/tokenize", Access::use, nullptr, Endpoints::tokenize},
        {"POST", "/detokenize", Access::use, nullptr, Endpoints::detokenize},
        {"POST", "/v1/chat/completions", Access::use, &kOpenAiChat},
        {"POST", "/v1/completions", Access::use, &kOpenAiCompletions},
        {"POST", "/v1/embeddings", Access::use, &kOpenAiEmbeddings},
        {"POST", "/v1/responses", Access::use, &kResponses},
        {"GET", "/v1/models", Access::use, nullptr, Endpoints::models},
        {"GET", "/v1/models/*", Access::use, nullptr, Endpoints::model},
        {"POST", "/v1/messages", Access::use, &kAnthropicMessages},
        {"POST", "/v1/messages/count_tokens", Access::use, nullptr, Endpoints::count_tokens, kAnthropicMessages.error},
        {"POST", "/api/chat", Access::use, &kOllamaChat},
        {"POST", "/api/generate", Access::use, &kOllamaGenerate},
        {"POST", "/api/embed", Access::use, &kOllamaEmbed},
        {"POST", "/api/embeddings", Access::use, &kOllamaEmbeddings},
        {"GET", "/api/tags", Access::use, nullptr, Endpoints::ollama_tags, kOllamaChat.error},
        {"GET", "/api/ps", Access::use, nullptr, Endpoints::ollama_ps, kOllamaChat.error},
        {"POST", "/api/show", Access::use, nullptr, Endpoints::ollama_show, kOllamaChat.error},
        {"GET", "/api/version", Access::open, nullptr, Endpoints::ollama_version, kOllamaChat.error},
        {"POST", "/api/pull", Access::admin, nullptr, Endpoints::ollama_pull, kOllamaChat.error},
        {"DELETE", "/api/delete", Access::admin, nullptr, Endpoints::ollama_delete, kOllamaChat.error},
        {"POST", "/api/copy", Access::admin, nullptr, Endpoints::ollama_copy, kOllamaChat.error},
        {"POST", "/api/create", Access::admin, nullptr, Endpoints::ollama_create, kOllamaChat.error},
        {"GET", "/api/tandem/catalog", Access::use, nullptr, Endpoints::catalog},
        {"GET", "/*", Access::open, nullptr, Endpoints::page},
    };
    return all;
}

bool matches(const Route& route, std::string_view path, std::string& name) {
    if (!route.path.ends_with("/*")) return route.path == path;
    const std::string_view head = route.path.substr(0, route.path.size() - 1);
    if (!path.starts_with(head)) return false;
    name = path.substr(head.size());
    return true;
}

std::string error_body(std::string_view path, const ApiError& error) {
    std::string name;
    for (const Route& route : routes()) {
        if (path.empty() || !matches(route, path, name)) continue;
        if (route.error != nullptr) return route.error(error);
        if (route.dialect != nullptr) return route.dialect->error(error);
    }
    // Clients of Ollama ask for more than there is here.
    const bool is_ollama = path.starts_with("/api/") && !path.starts_with("/api/tandem/");
    return is_ollama ? kOllamaChat.error(error) : dump(openai_error(error));
}

}  // namespace tandem::server
