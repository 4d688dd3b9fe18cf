#include "text/chat_template.h"

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/json.h"
#include "text/jinja/program.h"

namespace tandem::text {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The sources a model has, by purpose; empty where there is none.
struct Sources {
    std::string normal;
    std::string for_tools;
};

constexpr size_t kMaxConfigBytes = size_t{16} << 20;  // tokenizer_config.json lists the added tokens too

constexpr const char* kFunctions = "xml_tools";  // what SmolLM 3's template calls tools

// Tools without what OpenAI's form has around them.
nlohmann::ordered_json functions_of(const nlohmann::ordered_json& tools) {
    nlohmann::ordered_json functions = nlohmann::ordered_json::array();
    for (const auto& tool : tools) functions.push_back(tool.is_object() ? tool.value("function", tool) : tool);
    return functions;
}

Result<std::shared_ptr<const jinja::Program>> parse_program(std::string source) {
    jinja::Program program = TRY(jinja::Program::parse(std::move(source)));
    return std::make_shared<const jinja::Program>(std::move(program));
}

Sources read_gguf(const format::GgufFile& gguf) {
    Sources sources;
    sources.normal = gguf.get_string("tokenizer.chat_template").value_or("");
    sources.for_tools = gguf.get_string("tokenizer.chat_template.tool_use").value_or("");
    return sources;
}

// The text of a file, empty if there is none.
Result<std::string> read_if_there(const fs::path& path, size_t limit_bytes) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return std::string();
    return read_text_file(path, limit_bytes);
}

// "chat_template": "..." or [{"name": "default", "template": "..."}, {"name": "tool_use", ...}]
Result<Sources> read_config(const fs::path& path) {
    Sources sources;
    const std::string text = TRY(read_if_there(path, kMaxConfigBytes));
    if (text.empty()) return sources;
    const json config = TRY(format::parse_json(text, path.string(), format::kFileJson));
    if (!config.is_object() || !config.contains("chat_template")) return sources;
    const json& value = config["chat_template"];
    if (value.is_string()) sources.normal = value.get<std::string>();
    if (!value.is_array()) return sources;
    for (const json& entry : value) {
        const bool complete = entry.is_object() && entry.contains("name") && entry["name"].is_string() &&
                              entry.contains("template") && entry["template"].is_string();
        if (!complete) return fail("{}: an entry of chat_template has no name or no template", path.string());
        if (entry["name"] == "default") sources.normal = entry["template"].get<std::string>();
        if (entry["name"] == "tool_use") sources.for_tools = entry["template"].get<std::string>();
    }
    return sources;
}

// As transformers looks for them: a file of its own comes before a field of a configuration.
Result<Sources> read_directory(const fs::path& directory) {
    Sources sources;
    sources.normal = TRY(read_if_there(directory / "chat_template.jinja", jinja::kMaxSourceBytes));
    sources.for_tools =
        TRY(read_if_there(directory / "additional_chat_templates" / "tool_use.jinja", jinja::kMaxSourceBytes));
    for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
        if (!sources.normal.empty()) break;
        sources = TRY(read_config(directory / name));
    }
    return sources;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
    ChatTemplate result;
    result.program_ = TRY(parse_program(std::move(source)));
    result.program_for_tools_ = result.program_;
    return result;
}

Result<ChatTemplate> ChatTemplate::parse(std::string source, std::string source_for_tools) {
    ChatTemplate result;
    result.program_ = TRY(parse_program(std::move(source)));
    result.program_for_tools_ = TRY(parse_program(std::move(source_for_tools)));
    return result;
}

Result<std::string> ChatTemplate::render(const ChatInput& input, const jinja::Limits& limits) const {
    const nlohmann::ordered_json add_generation_prompt = input.add_generation_prompt;
    const nlohmann::ordered_json bos_token = input.bos_token;
    const nlohmann::ordered_json eos_token = input.eos_token;
    jinja::Variables variables = {
        {"messages", &input.messages},   {"tools", &input.tools},
        {"documents", &input.documents}, {"add_generation_prompt", &add_generation_prompt},
        {"bos_token", &bos_token},       {"eos_token", &eos_token},
    };
    if (input.extra.is_object()) {
        for (const auto& [name, value] : input.extra.items()) variables.emplace_back(name, &value);
    }
    const jinja::Program& program = input.tools.empty() ? *program_ : *program_for_tools_;
    nlohmann::ordered_json functions;
    if (!input.tools.empty() && !input.extra.contains(kFunctions) &&
        program.source().find(kFunctions) != std::string::npos) {
        functions = functions_of(input.tools);
        variables.emplace_back(kFunctions, &functions);
    }
    return jinja::render(program, variables, {.limits = limits, .now = input.now});
}

const std::string& ChatTemplate::source() const {
    return program_->source();
}

const std::string& ChatTemplate::source_for_tools() const {
    return program_for_tools_->source();
}

Result<std::optional<ChatTemplate>> load_chat_template(const format::Checkpoint& checkpoint) {
    Sources sources = checkpoint.gguf() ? read_gguf(*checkpoint.gguf()) : TRY(read_directory(checkpoint.path()));
    if (sources.normal.empty()) return std::optional<ChatTemplate>();
    Result<ChatTemplate> parsed = sources.for_tools.empty()
                                      ? ChatTemplate::parse(std::move(sources.normal))
                                      : ChatTemplate::parse(std::move(sources.normal), std::move(sources.for_tools));
    if (!parsed) return fail("{}: {}", checkpoint.name(), parsed.error().message);
    return std::optional<ChatTemplate>(std::move(*parsed));
}

}  // namespace tandem::text
