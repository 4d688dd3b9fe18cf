// What Ollama's API says about models: tags, ps, show, version.
#include <openssl/sha.h>

#include <array>
#include <cctype>

#include "server/fields.h"
#include "server/ollama.h"
#include "server/time_text.h"

namespace tandem::server {

namespace {

using std::chrono::system_clock;

// Of the API that is spoken here. Clients look at it to know what they may use.
constexpr std::string_view kOllamaVersion = "0.12.0";

// Clients compare it to see whether a model has changed; the file itself is not read for that.
std::string digest_of(const ModelCard& model) {
    const std::string text = fmt::format("{}\n{}\n{}", model.name, model.file_bytes, model.created_s);
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest = {};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    std::string hex;
    hex.reserve(2 * digest.size());
    for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
    return hex;
}

// "7.2B"
std::string in_words(uint64_t parameters) {
    if (parameters == 0) return "";
    const auto number = static_cast<double>(parameters);
    return parameters >= 1'000'000'000 ? fmt::format("{:.1f}B", number / 1e9) : fmt::format("{:.2f}M", number / 1e6);
}

std::string in_capitals(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

Json details_of(const ModelCard& model) {
    return {{"parent_model", ""},
            {"format", "gguf"},
            {"family", model.family},
            {"families", model.family.empty() ? Json::array() : Json::array({model.family})},
            {"parameter_size", in_words(model.parameters)},
            {"quantization_level", in_capitals(model.quantization)}};
}

system_clock::time_point at_seconds(int64_t seconds) {
    return system_clock::time_point(std::chrono::seconds(seconds));
}

}  // namespace

Json ollama_tags(std::span<const ModelCard> models) {
    Json list = Json::array();
    for (const ModelCard& model : models) {
        list.push_back({{"name", model.name},
                        {"model", model.name},
                        {"modified_at", iso_time(at_seconds(model.created_s))},
                        {"size", model.file_bytes},
                        {"digest", digest_of(model)},
                        {"details", details_of(model)}});
    }
    return {{"models", std::move(list)}};
}

Json ollama_ps(std::span<const ModelCard> models, system_clock::time_point now) {
    Json list = Json::array();
    for (const ModelCard& model : models) {
        if (model.state != ModelState::ready) continue;
        constexpr double kForGood = 100.0 * 365 * 24 * 3600;
        const double seconds = model.expires_in_s < 0 ? kForGood : std::min(model.expires_in_s, kForGood);
        list.push_back({{"name", model.name},
                        {"model", model.name},
                        {"size", model.memory_bytes},
                        {"digest", digest_of(model)},
                        {"details", details_of(model)},
                        {"expires_at", iso_time(now + std::chrono::seconds(static_cast<int64_t>(seconds)))},
                        {"size_vram", model.device_bytes},
                        {"context_length", model.context}});
    }
    return {{"models", std::move(list)}};
}

Json ollama_show(const ModelCard& model) {
    Json capabilities = Json::array({"completion"});
    if (model.has_tools) capabilities.push_back("tools");
    if (model.has_thinking) capabilities.push_back("thinking");
    const std::string family = model.family.empty() ? "unknown" : model.family;
    return {{"modelfile", ""},
            {"parameters", ""},
            {"template", model.chat_template},
            {"details", details_of(model)},
            {"model_info",
             {{"general.architecture", family},
              {"general.parameter_count", model.parameters},
              {family + ".context_length", model.trained_context},
              {family + ".embedding_length", model.dim}}},
            {"capabilities", std::move(capabilities)},
            {"modified_at", iso_time(at_seconds(model.created_s))}};
}

Json ollama_version(std::string_view server_version) {
    return {{"version", kOllamaVersion}, {"tandem", server_version}};
}

Reply<std::string> ollama_model_name(const Json& body) {
    const Fields fields = TRY(Fields::of(body));
    std::string name;
    TRY(fields.read("name", name));
    TRY(fields.read("model", name));
    if (name.empty()) return bad_request("model", "model is required");
    constexpr std::string_view kTag = ":latest";  // clients add it to names without a tag
    if (name.ends_with(kTag)) name.resize(name.size() - kTag.size());
    return name;
}

}  // namespace tandem::server
