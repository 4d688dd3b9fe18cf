// FittedTemplate: a chat template that is given every conversation in the form it wants.
#pragma once

#include <string>

#include "text/answer_format.h"
#include "text/chat_template.h"
#include "text/template_traits.h"

namespace tandem::text {

class FittedTemplate {
  public:
    explicit FittedTemplate(ChatTemplate chat_template);

    // As ChatTemplate::render(). Tools that the template does not show are described by the system message, and calls
    // of them are part of the text.
    Result<std::string> render(ChatInput input) const;

    const std::string& source() const { return template_.source(); }
    const AnswerFormat& answer_format() const { return format_; }
    bool shows_tools() const { return shows_tools_ || has_system_tools_; }

  private:
    Result<std::string> render_tools(ChatInput input) const;

    ChatTemplate template_;
    AnswerFormat format_;
    bool shows_tools_;
    bool has_system_tools_;  // the tools are text that belongs to the system message
    TemplateTraits without_tools_;
    TemplateTraits with_tools_;
};

}  // namespace tandem::text
