// Renders a chat template: from messages in a file to the prompt, exactly as a model would get it.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem::cli {

struct RenderOptions {
    std::string messages_file;  // "-": standard input
    std::string template_file;  // empty: the template of the model
    bool no_generation_prompt = false;
};

// `model` may be empty when there is a template file; else it also brings the texts of its special tokens.
Result<std::string> render_messages(const std::string& model, const RenderOptions& options);

}  // namespace tandem::cli
