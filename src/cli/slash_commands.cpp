#include "cli/slash_commands.h"

#include <algorithm>

#include "engine/bundle.h"
#include "user/settings.h"

namespace tandem::cli {

namespace {

Completion complete_model(std::string_view typed) {
    Completion models = complete_path(typed);
    for (const engine::EmbeddedModel& model : engine::embedded_models()) {
        if (model.name.starts_with(typed)) models.candidates.emplace_back(model.name);
    }
    std::sort(models.candidates.begin(), models.candidates.end());
    return models;
}

Completion complete_parameter(std::string_view typed) {
    constexpr std::string_view kGrammar = "grammar ";  // the one whose value may be a file
    if (typed.starts_with(kGrammar)) return complete_path(typed.substr(kGrammar.size()));
    std::vector<std::string_view> names;
    for (const user::Parameter& parameter : user::parameters()) names.push_back(parameter.name);
    return complete_word(typed, names);
}

}  // namespace

std::span<const SlashCommand> slash_commands() {
    using enum Slash;
    static const std::vector<SlashCommand> kCommands = {
        {help, {"/help", "/?"}, "", "This list"},
        {retry, {"/retry"}, "", "Draw the last answer anew"},
        {clear, {"/clear"}, "", "Forget the conversation"},
        {system, {"/system"}, "[TEXT]", "Say how the model should behave; alone: show it"},
        {think, {"/think"}, "[on|off]", "Whether the model thinks before it answers", SlashArgument::on_off},
        {set, {"/set"}, "[PARAM [VALUE]]", "Change a parameter; alone: list them", SlashArgument::parameter},
        {model, {"/model"}, "[MODEL]", "Go on with another model; alone: show it", SlashArgument::model},
        {show, {"/show"}, "", "The model, the context in use and the parameters"},
        {save, {"/save"}, "FILE", "Write the conversation to FILE as JSON", SlashArgument::file},
        {load, {"/load"}, "FILE", "Go on with the conversation in FILE", SlashArgument::file},
        {bye, {"/bye", "/exit", "/quit"}, "", "Leave; Ctrl-D does too"},
    };
    return kCommands;
}

std::vector<std::string_view> slash_names() {
    std::vector<std::string_view> names;
    for (const SlashCommand& known : slash_commands())
        names.insert(names.end(), known.names.begin(), known.names.end());
    return names;
}

const SlashCommand* find_slash(std::string_view name) {
    for (const SlashCommand& known : slash_commands()) {
        if (std::find(known.names.begin(), known.names.end(), name) != known.names.end()) return &known;
    }
    return nullptr;
}

bool is_slash_command(std::string_view text) {
    const std::string_view name = text.substr(0, text.find_first_of(" \t"));
    return name.starts_with('/') && name.find('/', 1) == std::string_view::npos &&
           text.find('\n') == std::string_view::npos;
}

std::optional<Completion> complete_slash(std::string_view line) {
    if (!is_slash_command(line)) return std::nullopt;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) return complete_word(line, slash_names());
    const SlashCommand* const found = find_slash(line.substr(0, space));
    const std::string_view argument = line.substr(std::min(line.find_first_not_of(' ', space), line.size()));
    switch (found == nullptr ? SlashArgument::none : found->completes) {
        case SlashArgument::file:
            return complete_path(argument);
        case SlashArgument::model:
            return complete_model(argument);
        case SlashArgument::parameter:
            return complete_parameter(argument);
        case SlashArgument::on_off:
            return complete_word(argument, {"on", "off"});
        case SlashArgument::none:
            break;
    }
    return Completion{};
}

}  // namespace tandem::cli
