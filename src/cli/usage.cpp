#include "cli/usage.h"

#include <CLI/CLI.hpp>

#include "cli/manual.h"
#include "cli/text_output.h"
#include "user/models.h"
#include "user/nearest.h"

namespace tandem::cli {

namespace {

constexpr size_t kShownArgument = 60;  // of an argument in a message

using Apps = std::vector<const CLI::App*>;

// The program and the commands in it that were given: tandem, npu, run.
Apps path_of(const CLI::App& root) {
    Apps path = {&root};
    while (!path.back()->get_subcommands().empty()) path.push_back(path.back()->get_subcommands().front());
    return path;
}

std::string spelled(const Apps& path) {
    std::string names;
    for (const CLI::App* app : path) names += (names.empty() ? "" : " ") + app->get_name();
    return names;
}

std::vector<std::string_view> command_names(const CLI::App& app) {
    std::vector<std::string_view> names;
    for (const CLI::App* const command : shown_commands(app)) {
        names.emplace_back(command->get_name());
    }
    return names;
}

// "--top-k" and the like.
std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
}

std::string explain_command(const CLI::App& app, const std::string& word) {
    const std::vector<std::string_view> names = command_names(app);
    const std::string shown = escape_short(word, kShownArgument);
    if (app.get_parent() == nullptr && user::names_a_model(word)) {
        return fmt::format("{}: a model, where a command comes first: tandem run {} talks to it", shown, shown);
    }
    const std::string near = user::suggestion(word, names);
    if (!near.empty()) return fmt::format("{}: no such command{}", shown, near);
    return fmt::format("{}: no such command; there are {}", shown, fmt::join(names, ", "));
}

std::string explain_option(const CLI::App& app, const Apps& path, const std::string& word) {
    const std::string option = word.substr(0, word.find('='));
    const std::string shown = escape_short(option, kShownArgument);
    const CLI::App& last = *path.back();
    if (&last != &app && last.get_option_no_throw(option) != nullptr) {
        return fmt::format("{}: an option of {}, which stands behind the command: {} {}", shown, last.get_name(),
                           spelled(path), shown);
    }
    const std::vector<std::string> options = option_names(last);
    return fmt::format("{}: no such option{}", shown, user::suggestion(option, {options.begin(), options.end()}));
}

// An argument that nothing takes; `app` is the one that was left with it.
std::string explain_extra(const CLI::App& app, const Apps& path, const std::string& word) {
    if (word.size() > 1 && word.starts_with('-')) return explain_option(app, path, word);
    const bool awaits_command = !command_names(app).empty();
    if (awaits_command) return explain_command(app, word);
    return fmt::format("{}: one argument too many; a text with spaces needs quotes around it",
                       escape_short(word, kShownArgument));
}

// The first argument that is required and not there; null when it is something else that is missing.
const CLI::Option* missing_argument(const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_required() && option->count() == 0) return option;
    }
    return nullptr;
}

std::string one_line(std::string text) {
    for (char& letter : text) {
        if (letter == '\n') letter = ' ';
    }
    return text;
}

std::string what_is_wrong(const CLI::ParseError& error, const Apps& path) {
    const bool lacks = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    const bool has_extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (lacks || has_extras) {  // what is misspelled is missing too: that it is there counts more
        for (const CLI::App* app : path) {
            const std::vector<std::string> extras = app->remaining();
            if (!extras.empty()) return explain_extra(*app, path, extras.front());
        }
    }
    if (lacks) {
        const CLI::App& app = *path.back();
        if (const CLI::Option* const missing = missing_argument(app); missing != nullptr) {
            return fmt::format("{} is missing: {}", missing->get_name(missing->get_positional()),
                               missing->get_description());
        }
        if (!command_names(app).empty()) {
            return fmt::format("{} needs a command: {}", spelled(path), fmt::join(command_names(app), ", "));
        }
    }
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {  // "--seed: 1 required TEXT missing"
        const std::string message = error.what();
        const std::string name = message.substr(0, message.find(':'));
        const CLI::Option* const option = path.back()->get_option_no_throw(name);
        if (option != nullptr) return fmt::format("{} needs a value: {}", name, option->get_description());
    }
    return one_line(error.what());
}

}  // namespace

std::string explain_usage(const CLI::App& root, const CLI::ParseError& error) {
    const Apps path = path_of(root);
    return fmt::format("{} (see {} --help)", what_is_wrong(error, path), spelled(path));
}

}  // namespace tandem::cli
