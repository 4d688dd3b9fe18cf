#include "cli/render.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "cli/json_input.h"
#include "engine/bundle.h"
#include "text/fitted_template.h"
#include "text/jinja/limits.h"
#include "text/tokenizer.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

// Takes `key` out of `object`; null when it is not there.
Json take(Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return nullptr;
    Json value = std::move(*found);
    object.erase(found);
    return value;
}

Result<text::ChatInput> read_input(const RenderOptions& options) {
    text::ChatInput input;
    input.add_generation_prompt = !options.no_generation_prompt;
    Json json = TRY(read_json(options.messages_file));
    if (json.is_array()) {
        input.messages = std::move(json);
        return input;
    }
    if (!json.is_object() || !json.contains("messages")) {
        return fail("{}: neither a list of messages nor an object with \"messages\"", options.messages_file);
    }
    input.messages = take(json, "messages");
    input.tools = take(json, "tools");
    input.documents = take(json, "documents");
    const Json generation = take(json, "add_generation_prompt");
    if (generation.is_boolean() && !options.no_generation_prompt) input.add_generation_prompt = generation.get<bool>();
    for (const auto& [key, target] : {std::pair{"bos_token", &input.bos_token}, {"eos_token", &input.eos_token}}) {
        if (const Json token = take(json, key); token.is_string()) *target = token.get<std::string>();
    }
    input.extra = std::move(json);
    return input;
}

void add_special_tokens(text::ChatInput& input, const text::Tokenizer& tokenizer) {
    if (input.bos_token.empty() && tokenizer.bos()) input.bos_token = tokenizer.piece(*tokenizer.bos());
    if (input.eos_token.empty() && tokenizer.eos()) input.eos_token = tokenizer.piece(*tokenizer.eos());
}

Result<text::FittedTemplate> read_template(const std::string& path) {
    std::string source = TRY(read_text_file(path, text::jinja::kMaxSourceBytes));
    return text::FittedTemplate(TRY(text::ChatTemplate::parse(std::move(source))));
}

}  // namespace

Result<std::string> render_messages(const std::string& model, const RenderOptions& options) {
    text::ChatInput input = TRY(read_input(options));
    if (model.empty()) return TRY(read_template(options.template_file)).render(input);

    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(model));
    // A model may come without a tokenizer; its template can be rendered all the same.
    if (const Result<text::Tokenizer> tokenizer = text::load_tokenizer(checkpoint)) {
        add_special_tokens(input, *tokenizer);
    }
    if (!options.template_file.empty()) return TRY(read_template(options.template_file)).render(input);
    std::optional<text::ChatTemplate> chat_template = TRY(text::load_chat_template(checkpoint));
    if (!chat_template) return fail("{}: the model has no chat template; give one with --template FILE", model);
    return text::FittedTemplate(std::move(*chat_template)).render(std::move(input));
}

}  // namespace tandem::cli
