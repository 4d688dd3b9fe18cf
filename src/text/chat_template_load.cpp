// Finds the chat template in whatever files a model came in.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/json.h"
#include "text/chat_template.h"

namespace tandem::text {

namespace {

using nlohmann::json;

// The template inside a JSON file: a string, or a list of {name, template}.
std::optional<std::string> template_in(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) return std::nullopt;
    std::optional<std::string> chosen;
    for (const json& entry : value) {
        if (!entry.is_object() || !entry.contains("template") || !entry["template"].is_string()) continue;
        const bool is_default = entry.value("name", json()) == "default";
        if (is_default || !chosen) chosen = entry["template"].get<std::string>();
        if (is_default) break;
    }
    return chosen;
}

Result<std::optional<std::string>> source_in_directory(const std::filesystem::path& folder) {
    std::error_code ignored;
    if (const auto path = folder / "chat_template.jinja"; std::filesystem::exists(path, ignored)) {
        return std::optional<std::string>(TRY(read_text_file(path)));
    }
    for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
        const auto path = folder / name;
        if (!std::filesystem::exists(path, ignored)) continue;
        const std::string text = TRY(read_text_file(path));
        const json parsed = TRY(format::parse_json(text, path.string()));
        if (!parsed.is_object() || !parsed.contains("chat_template")) continue;
        if (std::optional<std::string> source = template_in(parsed["chat_template"])) return source;
    }
    return std::optional<std::string>();
}

}  // namespace

Result<std::optional<ChatTemplate>> load_chat_template(const format::Checkpoint& checkpoint) {
    std::optional<std::string> source;
    if (checkpoint.gguf() != nullptr) {
        if (const auto text = checkpoint.gguf()->get_string("tokenizer.chat_template")) source = std::string(*text);
    } else {
        source = TRY(source_in_directory(checkpoint.path()));
    }
    if (!source) return std::optional<ChatTemplate>();
    return std::optional<ChatTemplate>(TRY(ChatTemplate::parse(std::move(*source))));
}

}  // namespace tandem::text
