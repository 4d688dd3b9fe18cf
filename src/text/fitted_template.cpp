#include "text/fitted_template.h"

#include "text/message_forms.h"

namespace tandem::text {

FittedTemplate::FittedTemplate(ChatTemplate chat_template)
    : template_(std::move(chat_template)),
      format_(text::answer_format(template_.source() + template_.source_for_tools())),
      shows_tools_(text::shows_tools(template_)),
      has_system_tools_(!shows_tools_ && shows_system_tools(template_)),
      without_tools_(probe_template(template_, false)),
      with_tools_(probe_template(template_, true)) {}

Result<std::string> FittedTemplate::render(ChatInput input) const {
    const bool has_tools = !input.tools.empty();
    TemplateTraits traits = has_tools && shows_tools_ ? with_tools_ : without_tools_;
    if (has_tools && !shows_tools_) {
        input.messages = has_system_tools_ ? messages_with_system_tools(std::move(input.messages), input.tools)
                                           : describe_tools(std::move(input.messages), input.tools);
        input.tools = nullptr;
        traits.writes_calls = traits.results_as_user = traits.merges_turns = true;
    }
    input.messages = fit_messages(std::move(input.messages), traits);
    return has_tools && shows_tools_ ? render_tools(std::move(input)) : template_.render(input);
}

// Some templates want all of a tool, also what need not be said.
Result<std::string> FittedTemplate::render_tools(ChatInput input) const {
    Result<std::string> text = template_.render(input);
    if (text) return text;
    input.tools = tools_in_full(std::move(input.tools));
    Result<std::string> text_in_full = template_.render(input);
    return text_in_full ? std::move(text_in_full) : std::move(text);
}

}  // namespace tandem::text
