// A model that answers by a script: whatever the prompt, it says the same pieces.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

struct Script {
    std::string chat_template;
    std::vector<std::string> controls;  // tokens
    std::vector<std::string> pieces;    // what it says, each once and none of a single byte; controls among them
    std::string stop;                   // the control token that ends the answer
};

// A Llama of one layer that adds nothing, in the Hugging Face layout. Every token has a direction of its own, and the
// matrix that makes the logits leads from each piece to the next, and from all that is no piece to the first.
void write_scripted_model(const Script& script, const std::filesystem::path& folder);

}  // namespace tandem
