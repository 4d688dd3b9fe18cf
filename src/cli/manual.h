// The manual pages and the completions of shells, made of what --help is made of.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tandem::cli {

// Sub-commands that people are told of.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);

// The page of a command, or of the whole program, as troff.
std::string manual_page(const CLI::App& app);
// "tandem", "tandem-run", "tandem-npu-list"
std::string page_name(const CLI::App& app);

// What may stand in the place of the last of these words, which follow the program's name: commands, options and
// models.
std::vector<std::string> complete_words(const CLI::App& root, const std::vector<std::string>& words);
// The script that makes a shell (bash, zsh, fish) ask for that; empty for others.
std::string_view completion_script(std::string_view shell);

}  // namespace tandem::cli
