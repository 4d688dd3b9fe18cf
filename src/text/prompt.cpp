#include "text/prompt.h"

#include <algorithm>

#include "text/message_forms.h"
#include "text/utf8.h"

namespace tandem::text {

namespace {

using Json = nlohmann::ordered_json;
using Kind = PromptError::Kind;

std::string piece_text(const Tokenizer& tokenizer, std::optional<TokenId> id) {
    return id ? std::string(tokenizer.piece(*id)) : std::string();
}

// Where the text stops being UTF-8; its size where it does not.
size_t broken_utf8(std::string_view text) {
    size_t at = 0;
    while (at < text.size()) {
        const Utf8Char next = decode_utf8(text.substr(at));
        if (!next.valid) break;
        at += next.length;
    }
    return at;
}

Made<Ok> check_text(std::string_view text, std::string_view name, std::string field) {
    const size_t broken = is_valid_utf8(text) ? text.size() : broken_utf8(text);
    if (broken == text.size()) return Ok{};
    return PromptError{.kind = Kind::not_utf8,
                       .message = fmt::format("the prompt is not UTF-8: byte {} of {} is 0x{:02X}; convert it, for "
                                              "example with iconv -f latin1 -t utf-8",
                                              broken + 1, name, static_cast<unsigned char>(text[broken])),
                       .field = std::move(field)};
}

// Every text in it, keys too.
Made<Ok> check_json(const Json& json, const std::string& path, std::string_view name) {
    if (const auto* const text = json.get_ptr<const std::string*>()) return check_text(*text, name, path);
    if (json.is_object()) {
        for (const auto& [key, value] : json.items()) {
            TRY(check_text(key, "a key of " + path, path));
            const std::string place = path + "." + key;
            TRY(check_json(value, place, place));
        }
    } else if (json.is_array()) {
        for (size_t i = 0; i < json.size(); ++i) {
            const std::string place = fmt::format("{}[{}]", path, i);
            TRY(check_json(json[i], place, place));
        }
    }
    return Ok{};
}

Made<Ok> check_input(const PromptInput& input) {
    for (size_t i = 0; i < input.messages.size() && input.messages.is_array(); ++i) {
        const Json& message = input.messages[i];
        const std::string place = fmt::format("messages[{}]", i);
        const bool is_plain = message.is_object() && message.contains("role") && message.contains("content");
        if (is_plain) {
            TRY(check_json(message["role"], place + ".role", place + ".role"));
            const std::string role = message["role"].is_string() ? message["role"].get<std::string>() : "";
            TRY(check_json(message["content"], place + ".content", fmt::format("the {} message", role)));
        }
        TRY(check_json(message, place, place));
    }
    TRY(check_json(input.tools, "tools", "tools"));
    return check_json(input.values, "chat_template_kwargs", "chat_template_kwargs");
}

PromptError too_long(size_t tokens, bool is_part, int context) {
    return {.kind = Kind::too_long,
            .message = fmt::format("the prompt of {}{} tokens exceeds the available context size of {} tokens. This "
                                   "model's maximum context length is {} tokens: shorten the prompt, or start with a "
                                   "larger --context",
                                   is_part ? "more than " : "", tokens, context, context),
            .tokens = static_cast<int64_t>(tokens)};
}

struct Encoded {
    std::vector<TokenId> tokens;
    bool is_part = false;  // of a text that is far too long
};

// Encodes no more of a text than shows that it is too long: the rest would cost memory and time for nothing. A
// beginning with twice the tokens that fit leaves no doubt, however the text goes on where it was cut.
Encoded encode_within(const Tokenizer& tokenizer, std::string_view text, bool add_special, int context) {
    constexpr size_t kBytesPerToken = 16;  // several times that of real texts
    if (context > 0) {
        const auto most = static_cast<size_t>(context) * 2;
        for (size_t bytes = most * kBytesPerToken; bytes < text.size() / 2; bytes *= 2) {
            size_t cut = bytes;
            while ((static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;  // not within a character
            std::vector<TokenId> tokens = tokenizer.encode(text.substr(0, cut), {.add_special = add_special});
            if (tokens.size() > most) return {.tokens = std::move(tokens), .is_part = true};
        }
    }
    return {.tokens = tokenizer.encode(text, {.add_special = add_special})};
}

// Whether the model is to think: as much as the effort says where nothing else does.
std::optional<bool> thinking_of(const PromptInput& input) {
    if (input.constrained || input.calls_tool) return false;
    if (input.thinking || input.reasoning_effort.empty()) return input.thinking;
    return input.reasoning_effort != "none" && input.reasoning_effort != "minimal";
}

// gpt-oss always thinks, and knows three ways.
std::string effort_of(const PromptInput& input, const AnswerFormat& format, std::optional<bool> thinking) {
    if (format.calls != CallStyle::harmony) return input.reasoning_effort;
    if (thinking == false) return "low";
    return input.reasoning_effort == "xhigh" || input.reasoning_effort == "max" ? "high" : input.reasoning_effort;
}

ChatInput chat_input(const PromptInput& input, const AnswerFormat& format) {
    ChatInput chat;
    chat.messages = input.messages;
    chat.tools = input.tools;
    chat.add_generation_prompt = input.add_generation_prompt;
    if (input.values.is_object()) chat.extra = input.values;
    const std::optional<bool> thinking = thinking_of(input);
    if (thinking) chat.extra["enable_thinking"] = chat.extra["thinking"] = *thinking;  // whichever name it has
    const std::string effort = effort_of(input, format, thinking);
    if (!effort.empty()) chat.extra["reasoning_effort"] = effort;
    return chat;
}

// gpt-oss's template shows the reasoning before a call, under a name of its own and where nothing was said.
void name_thinking(nlohmann::ordered_json& messages) {
    for (nlohmann::ordered_json& message : messages) {
        if (!message.is_object() || !message.contains("tool_calls") || message.contains("thinking")) continue;
        const auto reasoning = message.find("reasoning_content");
        if (reasoning == message.end() || !content_text(message).empty()) continue;
        const nlohmann::ordered_json text = *reasoning;
        message["thinking"] = text;
    }
}

}  // namespace

PromptMaker::PromptMaker(Tokenizer tokenizer, const std::optional<ChatTemplate>& chat_template)
    : tokenizer_(std::move(tokenizer)),
      bos_(piece_text(tokenizer_, tokenizer_.bos())),
      eos_(piece_text(tokenizer_, tokenizer_.eos())) {
    if (chat_template) template_.emplace(*chat_template);
}

Made<Prompt> PromptMaker::chat(const PromptInput& input, const PromptLimits& limits) const {
    if (!template_) {
        return PromptError{.kind = Kind::no_template,
                           .message =
                               "the model has no chat template: give it text to complete instead "
                               "(/v1/completions, tandem run --raw)",
                           .field = "model"};
    }
    TRY(check_input(input));
    const AnswerFormat& format = template_->answer_format();
    ChatInput chat = chat_input(input, format);
    chat.bos_token = bos_;
    chat.eos_token = eos_;
    std::string opening;
    if (input.continues_last && !chat.messages.empty()) {
        opening = content_text(chat.messages.back());
        chat.messages.erase(chat.messages.size() - 1);
    }
    if (format.calls == CallStyle::harmony) name_thinking(chat.messages);
    Result<std::string> rendered = template_->render(std::move(chat));
    if (!rendered) {
        return PromptError{
            .kind = Kind::template_failed, .message = std::move(rendered).error().message, .field = "messages"};
    }
    std::string text = std::move(*rendered);

    const bool no_reasoning = thinking_of(input) == false;
    bool begins_in_reasoning = opens_reasoning(format, text);
    if (begins_in_reasoning && no_reasoning) {  // of a template that has no switch for it
        text += std::string(format.reasoning_end) + "\n\n";
        begins_in_reasoning = false;
    }
    if ((input.constrained && !input.calls_tool) || !opening.empty()) text += opening_of(format);
    text += opening;
    // The call is a message of its own.
    if (input.calls_tool && !opening.empty() && format.calls == CallStyle::harmony)
        text += fmt::format("{}{}assistant", kHarmonyEnd, kHarmonyStart);

    // Most templates write the first token themselves.
    const bool has_bos = !bos_.empty() && text.starts_with(bos_);
    Prompt prompt = TRY(encode(text, !has_bos, limits));
    prompt.format = format;
    prompt.begins_in_reasoning = begins_in_reasoning;
    prompt.shown = shown_marks(format, !input.tools.empty());
    return prompt;
}

Made<Prompt> PromptMaker::text(std::string_view text, const PromptLimits& limits) const {
    TRY(check_text(text, "it", ""));
    return encode(text, true, limits);
}

Made<Prompt> PromptMaker::cut_text(std::string_view text, const PromptLimits& limits) const {
    TRY(check_text(text, "it", ""));
    std::vector<TokenId> ids = encode_within(tokenizer_, text, true, limits.context).tokens;
    if (limits.context > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(limits.context)));
    return tokens(std::move(ids), limits);
}

Made<Prompt> PromptMaker::tokens(std::vector<TokenId> tokens, const PromptLimits& limits) {
    if (tokens.empty()) {
        return PromptError{.kind = Kind::empty, .message = "the prompt is empty: the model has nothing to go on"};
    }
    if (limits.context > 0 && std::ssize(tokens) > limits.context)
        return too_long(tokens.size(), false, limits.context);
    for (const TokenId token : tokens) {
        if (token >= 0 && token < limits.vocab) continue;
        return PromptError{
            .kind = Kind::unknown_token,
            .message = fmt::format("token id {} is not in the model's vocabulary of {}", token, limits.vocab)};
    }
    return Prompt{.tokens = std::move(tokens)};
}

Made<Prompt> PromptMaker::encode(std::string_view text, bool add_special, const PromptLimits& limits) const {
    Encoded encoded = encode_within(tokenizer_, text, add_special, limits.context);
    if (encoded.is_part) return too_long(encoded.tokens.size(), true, limits.context);
    return tokens(std::move(encoded.tokens), limits);
}

std::vector<TokenId> PromptMaker::shown_marks(const AnswerFormat& format, bool has_tools) const {
    std::vector<TokenId> shown;
    for (const std::string_view mark : marks_of(format, has_tools)) {
        const std::optional<TokenId> token = tokenizer_.find(mark);
        if (token && tokenizer_.is_special(*token)) shown.push_back(*token);
    }
    return shown;
}

}  // namespace tandem::text
