#include "cli/manual.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "cli/command.h"
#include "cli/text_output.h"
#include "engine/bundle.h"
#include "hub/catalog.h"
#include "hub/library.h"

namespace tandem::cli {

namespace {

// Text of troff: what it would take for a command is taken from it.
std::string troff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const bool begins_line = out.empty() || out.back() == '\n';
        if (begins_line && (c == '.' || c == '\'')) out += "\\&";
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return out;
}

std::string one_line_of(std::string_view text) {
    std::string line(text);
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
}

std::string spelled_out(const CLI::App& app) {
    return app.get_parent() == nullptr ? app.get_name() : spelled_out(*app.get_parent()) + " " + app.get_name();
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app, bool positional) {
    return app.get_options([positional](const CLI::Option* option) {
        return option->get_positional() == positional && !option->get_group().empty();
    });
}

std::string option_entry(const CLI::Option& option) {
    const std::string value = option.get_option_text();
    std::string entry = ".TP\n.B " + troff(option.get_name(option.get_positional(), true));
    if (!option.get_positional() && !value.empty() && value != " ") entry += " \\fI" + troff(value) + "\\fP";
    return entry + "\n" + troff(one_line_of(option.get_description())) + "\n";
}

std::string synopsis(const CLI::App& app) {
    std::string text = ".B " + troff(spelled_out(app)) + "\n";
    if (!shown_options(app, false).empty()) text += ".RI [ OPTIONS ]\n";
    for (const CLI::Option* const argument : shown_options(app, true)) {
        const std::string name = troff(argument->get_name(true));
        text += argument->get_required() ? ".I " + name + "\n" : ".RI [ " + name + " ]\n";
    }
    if (!shown_commands(app).empty()) text += ".I COMMAND\n";
    return text;
}

std::string commands_section(const CLI::App& app) {
    std::string text;
    for (const CLI::App* const command : shown_commands(app)) {
        text += ".TP\n.B " + troff(command->get_name()) + "\n" + troff(one_line_of(command->get_description())) + "\n";
    }
    return text.empty() ? text : ".SH COMMANDS\n" + text;
}

std::string see_also(const CLI::App& app) {
    std::vector<std::string> pages;
    if (app.get_parent() != nullptr) pages.push_back(page_name(*app.get_parent()));
    for (const CLI::App* const command : shown_commands(app)) pages.push_back(page_name(*command));
    std::string text;
    for (const std::string& page : pages) {
        text += fmt::format(".BR {} (1){}\n", troff(page), &page == &pages.back() ? "" : ",");
    }
    return text.empty() ? text : ".SH SEE ALSO\n" + text;
}

void write_pages(const CLI::App& app, const std::filesystem::path& folder, std::vector<Status>& statuses) {
    statuses.push_back(write_file(folder / (page_name(app) + ".1"), manual_page(app)));
    for (const CLI::App* const command : shown_commands(app)) write_pages(*command, folder, statuses);
}

std::vector<std::string> model_names(std::string_view command) {
    std::vector<std::string> names;
    if (command != "rm" && command != "pull") {
        for (const engine::EmbeddedModel& model : engine::embedded_models()) names.emplace_back(model.name);
    }
    if (command != "pull") {
        for (const hub::LocalModel& model : hub::find_models(hub::find_places())) names.push_back(model.name);
    }
    if (command == "pull" || command == "run" || command == "serve") {
        for (const hub::CatalogEntry& entry : hub::catalog()) names.emplace_back(entry.name);
    }
    return names;
}

bool takes_models(const CLI::App& app) {
    for (const CLI::Option* const argument : shown_options(app, true)) {
        const std::string name = argument->get_name(true);
        if (name == "MODEL" || name == "NAME") return true;
    }
    return false;
}

std::vector<std::string> option_names(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* const option : shown_options(app, false)) {
        for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
}

// An option in front of the word that still wants its value.
bool awaits_value(const CLI::App& app, const std::string& word) {
    if (!word.starts_with('-') || word.find('=') != std::string::npos) return false;
    const CLI::Option* const option = app.get_option_no_throw(word);
    return option != nullptr && option->get_expected_max() > 0 && option->get_type_size() > 0;
}

constexpr std::string_view kBash = R"script(# bash completion of tandem
_tandem() {
    local IFS=$'\n' cur
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    if declare -F _get_comp_words_by_ref > /dev/null; then
        local cword
        _get_comp_words_by_ref -n : cur words cword
        words=("${words[@]:1:cword}")
    else
        cur=${COMP_WORDS[COMP_CWORD]}
    fi
    COMPREPLY=($(compgen -W "$(tandem complete -- "${words[@]}" 2> /dev/null)" -- "$cur"))
    if ((${#COMPREPLY[@]} == 0)); then compopt -o default; fi
    if declare -F __ltrim_colon_completions > /dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -F _tandem tandem
)script";

constexpr std::string_view kZsh = R"script(#compdef tandem
# zsh completion of tandem
local -a candidates
candidates=("${(@f)$(tandem complete -- "${(@)words[2,CURRENT]}" 2> /dev/null)}")
if [[ -n ${candidates[1]} ]]; then compadd -- "${candidates[@]}"; else _files; fi
)script";

constexpr std::string_view kFish = R"script(# fish completion of tandem
complete -c tandem -a '(tandem complete -- (commandline -opc)[2..-1] (commandline -ct) 2> /dev/null)'
)script";

}  // namespace

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
    return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string page_name(const CLI::App& app) {
    std::string name = spelled_out(app);
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
}

std::string manual_page(const CLI::App& app) {
    std::string title = page_name(app);
    std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
    const std::string description = app.get_description();
    std::string summary = description.substr(0, description.find('\n'));
    while (summary.ends_with('.')) summary.pop_back();
    std::string page = fmt::format(".TH {} 1 \"\" \"tandem {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                                   title, TANDEM_VERSION, troff(page_name(app)), troff(summary));
    page += synopsis(app) + ".SH DESCRIPTION\n" + troff(description) + "\n" + commands_section(app);
    std::string options;
    for (const bool positional : {true, false}) {
        for (const CLI::Option* const option : shown_options(app, positional)) options += option_entry(*option);
    }
    if (!options.empty()) page += ".SH OPTIONS\n" + options;
    if (!app.get_footer().empty()) page += ".SH NOTES\n.nf\n" + troff(app.get_footer()) + "\n.fi\n";
    return page + see_also(app);
}

std::vector<std::string> complete_words(const CLI::App& root, const std::vector<std::string>& words) {
    const CLI::App* app = &root;
    const std::string last = words.empty() ? "" : words.back();
    for (size_t i = 0; i + 1 < words.size(); ++i) {
        const auto commands = shown_commands(*app);
        const auto named = std::find_if(commands.begin(), commands.end(),
                                        [&](const CLI::App* command) { return command->get_name() == words[i]; });
        if (named != commands.end()) app = *named;
    }
    std::vector<std::string> candidates;
    if (words.size() > 1 && awaits_value(*app, words[words.size() - 2])) return candidates;  // the shell's files
    if (last.starts_with('-')) {
        candidates = option_names(*app);
    } else {
        for (const CLI::App* const command : shown_commands(*app)) candidates.push_back(command->get_name());
        if (takes_models(*app)) candidates = model_names(app->get_name());
    }
    std::erase_if(candidates, [&](const std::string& word) { return !word.starts_with(last); });
    return candidates;
}

std::string_view completion_script(std::string_view shell) {
    if (shell == "bash") return kBash;
    if (shell == "zsh") return kZsh;
    if (shell == "fish") return kFish;
    return {};
}

// ---- The commands; those without a group are for scripts and the build, and are not shown.

Command add_completion(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("completion", "Print what makes a shell complete commands and models");
    const auto shell = std::make_shared<std::string>();
    app->add_option("SHELL", *shell, "bash, zsh or fish")
        ->option_text(" ")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    app->footer("The packages install them. By hand, for bash: source <(tandem completion bash)");
    return {app, [shell]() -> Result<int> {
                print(completion_script(*shell));
                return 0;
            }};
}

Command add_complete(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("complete", "Candidates for the last of some words")->group("");
    const auto words = std::make_shared<std::vector<std::string>>();
    app->add_option("WORD", *words, "What was typed");
    return {app, [words, &parent]() -> Result<int> {
                for (const std::string& word : complete_words(parent, *words)) print(word + "\n");
                return 0;
            }};
}

Command add_manual(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("manual", "Write the manual pages of all commands")->group("");
    const auto folder = std::make_shared<std::string>();
    app->add_option("DIR", *folder, "Where to")->required();
    return {app, [folder, &parent]() -> Result<int> {
                std::vector<Status> statuses;
                write_pages(parent, *folder, statuses);
                for (const Status& status : statuses) {
                    if (!status) return status.error();
                }
                return 0;
            }};
}

}  // namespace tandem::cli
