#include "text/fitted_template.h"

#include "text/message_forms.h"

namespace tandem::text {

FittedTemplate::FittedTemplate(ChatTemplate chat_template)
    : template_(std::move(chat_template)),
      format_(text::answer_format(template_.source() + template_.source_for_tools())),
      shows_tools_(text::shows_tools(template_)),
      without_tools_(probe_template(template_, false)),
      with_tools_(probe_template(template_, true)) {}

Result<std::string> FittedTemplate::render(ChatInput input) const {
    const bool has_tools = !input.tools.empty();
    TemplateTraits traits = has_tools && shows_tools_ ? with_tools_ : without_tools_;
    if (has_tools && !shows_tools_) {
        input.messages = describe_tools(std::move(input.messages), input.tools);
        input.tools = nullptr;
        traits.writes_calls = traits.results_as_user = traits.merges_turns = true;
    }
    input.messages = fit_messages(std::move(input.messages), traits);
    return template_.render(input);
}

}  // namespace tandem::text
