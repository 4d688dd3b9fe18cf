#include "server/chat_prompt.h"

#include "server/tool_prompt.h"

namespace tandem::server {

namespace {

std::string piece_of(const text::Tokenizer& tokenizer, std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer.piece(*id)) : std::string();
}

std::vector<std::string> names_of(const Json& tools) {
    std::vector<std::string> names;
    names.reserve(tools.size());
    for (const Json& tool : tools) names.push_back(tool.at("function").at("name").get<std::string>());
    return names;
}

bool must_call(const Ask& ask) {
    return ask.tool_choice == ToolChoice::required || ask.tool_choice == ToolChoice::named;
}

text::ChatInput input_of(const Ask& ask, const text::Tokenizer& tokenizer, bool has_tools, bool shows_tools) {
    text::ChatInput input;
    input.bos_token = piece_of(tokenizer, tokenizer.bos());
    input.eos_token = piece_of(tokenizer, tokenizer.eos());
    input.messages = has_tools && !shows_tools ? messages_with_tools(ask) : ask.messages;
    if (has_tools && shows_tools) input.tools = ask.tools;
    input.extra = ask.template_values;
    if (ask.thinks) input.extra["enable_thinking"] = *ask.thinks;
    if (!ask.reasoning_effort.empty()) input.extra["reasoning_effort"] = ask.reasoning_effort;
    return input;
}

}  // namespace

Reply<ChatPrompt> render_chat(const Ask& ask, const engine::Bundle& model) {
    if (!model.chat_template) {
        return bad_request("model", "{} has no chat template: use /v1/completions", model.model.name);
    }
    const AnswerFormat format = answer_format(model.chat_template->source());
    const bool has_tools = !ask.tools.empty() && ask.tool_choice != ToolChoice::none;
    ChatPrompt prompt;
    prompt.format = ask.format;
    prompt.reader.format = format;
    if (has_tools) prompt.reader.tools = names_of(ask.tools);

    text::ChatInput input = input_of(ask, model.tokenizer, has_tools, format.shows_tools);
    // A grammar holds the answer from its first letter: there is no reasoning before it.
    const bool calls = has_tools && must_call(ask);
    const bool constrained = calls || ask.format.kind != FormatKind::text;
    if (constrained) input.extra["enable_thinking"] = false;
    std::string opening;
    if (ask.continues_last && !input.messages.empty()) {
        opening = input.messages.back().value("content", "");
        input.messages.erase(input.messages.size() - 1);
    }
    if (format.calls == CallStyle::listed || format.calls == CallStyle::named) {
        input.messages = messages_with_short_ids(std::move(input.messages));
    }
    Result<std::string> rendered = model.chat_template->render(input);
    if (!rendered) return bad_request("messages", "{}", rendered.error().message);
    std::string text = std::move(*rendered);
    prompt.reader.begins_in_reasoning = opens_reasoning(format, text);
    if (constrained && prompt.reader.begins_in_reasoning) {
        text += std::string(format.reasoning_end) + "\n\n";
        prompt.reader.begins_in_reasoning = false;
    }
    text += opening;
    if (calls) {
        prompt.format = {.kind = FormatKind::json_schema, .source = call_schema(ask)};
        if (format.calls == CallStyle::tagged && format.knows_calls) text += "<tool_call>\n";
        prompt.reader.format.calls = CallStyle::plain;
    }
    // Most templates write the first token themselves.
    const bool has_bos = !input.bos_token.empty() && text.starts_with(input.bos_token);
    prompt.tokens = model.tokenizer.encode(text, {.add_special = !has_bos});
    for (const std::string_view mark : marks_of(format, has_tools)) {
        const std::optional<text::TokenId> token = model.tokenizer.find(mark);
        if (token && model.tokenizer.is_special(*token)) prompt.marks.push_back(*token);
    }
    return prompt;
}

}  // namespace tandem::server
