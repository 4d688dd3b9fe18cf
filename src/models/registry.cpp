#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/families.h"
#include "models/family.h"

namespace tandem::models {

namespace {

bool contains(const std::vector<std::string_view>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

std::string supported() {
    std::string list;
    for (const Family* family : families()) list += fmt::format("{}{}", list.empty() ? "" : ", ", family->name);
    return list;
}

std::string string_at(const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// What config.json calls the model, most telling first.
std::vector<std::string> names_in_config(const nlohmann::json& config) {
    std::vector<std::string> names;
    const auto text = config.find("text_config");
    if (text != config.end() && text->is_object()) names.push_back(string_at(*text, "model_type"));
    names.push_back(string_at(config, "model_type"));
    const auto classes = config.find("architectures");
    if (classes != config.end() && classes->is_array()) {
        for (const auto& name : *classes) names.push_back(name.is_string() ? name.get<std::string>() : "");
    }
    std::erase(names, "");
    return names;
}

}  // namespace

std::span<const Family* const> families() {
    static const Family* const table[] = {
        &gemma2(), &gemma3(),     &gemma4(),  &glm4_moe(),  &gpt_oss(), &granite(),
        &llama(),  &ministral3(), &mistral(), &mixtral(),   &olmo2(),   &phi3(),
        &qwen2(),  &qwen2_moe(),  &qwen3(),   &qwen3_moe(), &smollm3(),
    };
    return table;
}

Result<Identified> identify(const format::Checkpoint& checkpoint) {
    if (const format::GgufFile* gguf = checkpoint.gguf()) {
        const auto architecture = gguf->get_string("general.architecture");
        if (!architecture)
            return fail("{}: 'general.architecture' is missing: not a language model", checkpoint.name());
        for (const Family* family : families()) {
            if (!contains(family->architectures, *architecture)) continue;
            return Identified{family, Settings(checkpoint, std::string(*architecture))};
        }
        return fail("{}: models of the family '{}' are not supported (supported: {})", checkpoint.name(), *architecture,
                    supported());
    }
    const std::vector<std::string> names = names_in_config(*checkpoint.config());
    for (const std::string& name : names) {
        for (const Family* family : families()) {
            if (!contains(family->model_types, name)) continue;
            return Identified{family, Settings(checkpoint, std::string(family->architecture))};
        }
    }
    if (names.empty()) return fail("{}: config.json has no 'model_type'", checkpoint.name());
    return fail("{}: models of the family '{}' are not supported (supported: {})", checkpoint.name(), names.front(),
                supported());
}

Result<Model> load(const format::Checkpoint& checkpoint) {
    Identified found = TRY(identify(checkpoint));
    if (!found.family->takes_bytes) TRY(checkpoint.check_readable());
    Model model = TRY(found.family->load(std::move(found.settings)));
    model.family = found.family->name;
    return model;
}

}  // namespace tandem::models
