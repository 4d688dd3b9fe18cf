// A model's chat template: turns a conversation into the prompt text the model was trained on.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/jinja/limits.h"

namespace tandem::format {
class Checkpoint;
}

namespace tandem::text {

namespace jinja {
class Program;
}

// What a template sees. Objects keep the order of their keys: tool schemas are printed as they were written.
struct ChatInput {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools;      // null: no tools
    nlohmann::ordered_json documents;  // null: no documents
    bool add_generation_prompt = true;
    std::string bos_token;
    std::string eos_token;
    nlohmann::ordered_json extra = nlohmann::ordered_json::object();  // further variables, such as enable_thinking
    std::optional<std::chrono::system_clock::time_point> now;         // for strftime_now; unset: the clock
};

// A Jinja template in the dialect of Hugging Face: trim_blocks, lstrip_blocks, loop controls, an immutable sandbox.
// A parsed template is immutable: several threads may render it at the same time.
class ChatTemplate {
  public:
    static Result<ChatTemplate> parse(std::string source);
    // Some models have a second template for conversations with tools.
    static Result<ChatTemplate> parse(std::string source, std::string source_for_tools);

    // Errors are one line: "chat template, line 12: ...". What the template passes to raise_exception is in there.
    Result<std::string> render(const ChatInput& input, const jinja::Limits& limits = {}) const;

    // Of the template for conversations without tools.
    const std::string& source() const;
    // Of that for conversations with tools: the same one for most models.
    const std::string& source_for_tools() const;

  private:
    ChatTemplate() = default;

    std::shared_ptr<const jinja::Program> program_;
    std::shared_ptr<const jinja::Program> program_for_tools_;  // the same one for most models
};

// The model's own template: tokenizer.chat_template of a GGUF file; chat_template.jinja, chat_template.json or
// tokenizer_config.json of a Hugging Face directory, the one named "default" where there are several. Nothing where the
// model has none.
Result<std::optional<ChatTemplate>> load_chat_template(const format::Checkpoint& checkpoint);

}  // namespace tandem::text
