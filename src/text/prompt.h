// PromptMaker: the one way from what somebody says to the tokens that a model goes on from, and every check on it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/fitted_template.h"
#include "text/tokenizer.h"

namespace tandem::text {

// A conversation that the model is to go on with.
struct PromptInput {
    // In OpenAI's form: {"role", "content": text or null, "reasoning_content", "tool_calls": [{"id", "type":
    // "function", "function": {"name", "arguments": JSON text or an object}}], "tool_call_id", "name"}.
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    nlohmann::ordered_json tools = {};  // null, or [{"type": "function", "function": {...}}]
    bool add_generation_prompt = true;
    bool continues_last = false;         // the last message is the beginning of the answer
    bool calls_tool = false;             // the answer is calls of tools and nothing else, held to that by a grammar
    bool constrained = false;            // a grammar holds the answer from its first letter: no reasoning before it
    std::optional<bool> thinking = {};   // none: what the template does by itself
    std::string reasoning_effort = {};   // of the template
    nlohmann::ordered_json values = {};  // further variables of the template
};

struct PromptLimits {
    int context = 0;  // the most tokens; 0: any number
    int vocab = 0;    // of the model
};

struct Prompt {
    std::vector<TokenId> tokens;
    std::vector<TokenId> shown = {};   // control tokens that are marks for the reader of the answer
    AnswerFormat format = {};          // of the answer
    bool begins_in_reasoning = false;  // the answer does
};

struct PromptError {
    enum class Kind : uint8_t { no_template, not_utf8, template_failed, empty, too_long, unknown_token };
    Kind kind = Kind::empty;
    std::string message;     // in one line for the user: the thing, the value, the remedy
    std::string field = {};  // of the input: "messages[2].content"; empty: the text or the tokens
    int64_t tokens = 0;      // of too_long: at least so many
};

template <typename T>
using Made = Outcome<T, PromptError>;

// Immutable, and safe to use from several threads at once.
class PromptMaker {
  public:
    PromptMaker(Tokenizer tokenizer, const std::optional<ChatTemplate>& chat_template);

    // None: texts can only be completed as they are.
    const std::optional<FittedTemplate>& chat_template() const { return template_; }

    Made<Prompt> chat(const PromptInput& input, const PromptLimits& limits) const;
    // Text that is completed as it is.
    Made<Prompt> text(std::string_view text, const PromptLimits& limits) const;
    // The beginning of a text, as much as fits.
    Made<Prompt> cut_text(std::string_view text, const PromptLimits& limits) const;
    static Made<Prompt> tokens(std::vector<TokenId> tokens, const PromptLimits& limits);

  private:
    Made<Prompt> encode(std::string_view text, bool add_special, const PromptLimits& limits) const;
    std::vector<TokenId> shown_marks(const AnswerFormat& format, bool has_tools) const;

    Tokenizer tokenizer_;
    std::string bos_;  // as text, "" where there is none
    std::string eos_;
    std::optional<FittedTemplate> template_;
};

}  // namespace tandem::text
