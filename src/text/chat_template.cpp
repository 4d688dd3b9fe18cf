#include "text/chat_template.h"

#include "text/jinja/program.h"

namespace tandem::text {

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Program> program) : program_(std::move(program)) {}

Result<ChatTemplate> ChatTemplate::parse(std::string source) {
    jinja::Program program = TRY(jinja::Program::parse(std::move(source)));
    return ChatTemplate(std::make_shared<const jinja::Program>(std::move(program)));
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
    return jinja::render(*program_, variables, {.limits = limits, .now = input.now});
}

const std::string& ChatTemplate::source() const {
    return program_->source();
}

}  // namespace tandem::text
