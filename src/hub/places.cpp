#include "hub/places.h"

#include <cstdlib>

#include "base/file.h"

namespace tandem::hub {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTokenBytes = 4096;

// The first of these variables that is an absolute path.
fs::path path_of(const Variables& variables, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
        const char* const value = variables(name);
        if (value != nullptr && *value == '/') return value;
    }
    return {};
}

// The first of these variables that is set: of programs that take any path, also from ~ and from the current folder.
fs::path chosen(const Variables& variables, std::initializer_list<const char*> names) {
    for (const char* const name : names) {
        const char* const value = variables(name);
        const std::string path = value == nullptr ? "" : value;
        if (path.empty()) continue;
        const fs::path home = path_of(variables, {"HOME"});
        if (path == "~" || path.starts_with("~/"))
            return home.empty() ? home : home / path.substr(path.size() > 1 ? 2 : 1);
        return fs::absolute(path);
    }
    return {};
}

fs::path below(const fs::path& folder, const char* name) {
    return folder.empty() ? folder : folder / name;
}

std::string trimmed(std::string text) {
    constexpr const char* kSpace = " \t\r\n";
    text.erase(text.find_last_not_of(kSpace) + 1);
    text.erase(0, text.find_first_not_of(kSpace));
    return text;
}

bool is_on(const Variables& variables, const char* name) {
    const char* const value = variables(name);
    const std::string text = value == nullptr ? "" : value;
    return text == "1" || text == "true" || text == "TRUE" || text == "yes" || text == "YES" || text == "ON";
}

std::string find_token(const Variables& variables, const fs::path& hub_home) {
    if (is_on(variables, "HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
    for (const char* const name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
        const char* const value = variables(name);
        if (value != nullptr && !trimmed(value).empty()) return trimmed(value);
    }
    const fs::path named = chosen(variables, {"HF_TOKEN_PATH"});
    const Result<std::string> text = read_text_file(named.empty() ? below(hub_home, "token") : named, kMostTokenBytes);
    return text ? trimmed(*text) : std::string();
}

std::string find_endpoint(const Variables& variables) {
    const char* const value = variables("HF_ENDPOINT");
    std::string endpoint = value == nullptr ? "" : trimmed(value);
    while (endpoint.ends_with('/')) endpoint.pop_back();
    return endpoint.empty() ? Places{}.endpoint : endpoint;
}

std::string find_certificates(const Variables& variables) {
    for (const char* const name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
        const char* const value = variables(name);
        if (value != nullptr && *value != '\0') return value;
    }
    return {};
}

}  // namespace

Places find_places(const Variables& variables) {
    const fs::path home = path_of(variables, {"HOME"});
    const auto xdg = [&](const char* name, const char* in_home) {
        const fs::path base = path_of(variables, {name});
        return base.empty() ? below(home, in_home) : base;
    };
    const fs::path cache = xdg("XDG_CACHE_HOME", ".cache");
    const fs::path hub_named = chosen(variables, {"HF_HOME"});
    const fs::path hub_home = hub_named.empty() ? below(cache, "huggingface") : hub_named;
    const fs::path hub_cache = chosen(variables, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
    const fs::path llama = chosen(variables, {"LLAMA_CACHE"});
    const fs::path ollama = chosen(variables, {"OLLAMA_MODELS"});

    Places places;
    places.hub_cache = hub_cache.empty() ? below(hub_home, "hub") : hub_cache;
    places.own = below(xdg("XDG_DATA_HOME", ".local/share"), "tandem/models");
    if (!ollama.empty()) places.ollama.push_back(ollama);
    if (!home.empty()) places.ollama.push_back(home / ".ollama/models");
    places.ollama.emplace_back("/usr/share/ollama/.ollama/models");  // of its service
    places.llama_cpp = llama.empty() ? below(cache, "llama.cpp") : llama;
    places.lm_studio = below(home, ".lmstudio/models");
    places.endpoint = find_endpoint(variables);
    places.token = find_token(variables, hub_home);
    places.certificates = find_certificates(variables);
    places.offline = is_on(variables, "HF_HUB_OFFLINE");
    return places;
}

Places find_places() {
    return find_places([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace tandem::hub
