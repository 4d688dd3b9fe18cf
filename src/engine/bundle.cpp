#include "engine/bundle.h"

#include <filesystem>

namespace tandem::engine {

namespace {

std::string embedded_names() {
    std::string names;
    for (const EmbeddedModel& model : embedded_models()) names += (names.empty() ? "" : ", ") + std::string(model.name);
    return names;
}

}  // namespace

Result<format::Checkpoint> open_checkpoint(const std::string& model) {
    for (const EmbeddedModel& embedded : embedded_models()) {
        if (model.empty() || model == embedded.name) {
            return format::Checkpoint::from_gguf(embedded.gguf, std::string(embedded.name));
        }
    }
    std::error_code ignored;
    if (!std::filesystem::exists(model, ignored)) {
        return fail("{}: no such file or directory, nor an embedded model ({})", model, embedded_names());
    }
    return format::Checkpoint::open(model);
}

Result<Bundle> open_bundle(const std::string& model) {
    auto checkpoint = std::make_unique<const format::Checkpoint>(TRY(open_checkpoint(model)));
    models::Model loaded = TRY(models::load(*checkpoint));
    text::Tokenizer tokenizer = TRY(text::load_tokenizer(*checkpoint));
    text::PromptMaker prompts(tokenizer, TRY(text::load_chat_template(*checkpoint)));
    return Bundle{std::move(checkpoint), std::move(loaded), std::move(tokenizer), std::move(prompts)};
}

}  // namespace tandem::engine
