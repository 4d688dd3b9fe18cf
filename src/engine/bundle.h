// Bundle: all of a model that generation needs, opened together: weights, Program, tokenizer, chat template.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "format/checkpoint.h"
#include "models/model.h"
#include "text/prompt.h"
#include "text/tokenizer.h"

namespace tandem::engine {

struct Bundle {
    std::unique_ptr<const format::Checkpoint> checkpoint;  // outlives the views in `model`
    models::Model model;
    text::Tokenizer tokenizer;
    text::PromptMaker prompts;  // with the chat template, where the model has one
};

// A model inside the program itself.
struct EmbeddedModel {
    std::string_view name;
    std::span<const std::byte> gguf;
};

std::span<const EmbeddedModel> embedded_models();  // the first is the default

// `model` is the name of an embedded model, a GGUF file or a Hugging Face directory; empty: the default.
Result<format::Checkpoint> open_checkpoint(const std::string& model);
Result<Bundle> open_bundle(const std::string& model);

}  // namespace tandem::engine
