// The commands of a conversation: their names, what they are for, and what Tab completes in them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "cli/completion.h"

namespace tandem::cli {

enum class Slash : unsigned char { help, retry, clear, system, think, set, model, show, save, load, bye };

// What stands behind a command, for Tab.
enum class SlashArgument : unsigned char { none, file, model, parameter, on_off };

struct SlashCommand {
    Slash command;
    std::vector<std::string_view> names;  // the first is its own, the others do the same
    std::string_view argument;
    std::string_view help;
    SlashArgument completes = SlashArgument::none;
};

std::span<const SlashCommand> slash_commands();
std::vector<std::string_view> slash_names();
const SlashCommand* find_slash(std::string_view name);  // null when there is none

// "/usr/bin/env", "//" and several lines are text.
bool is_slash_command(std::string_view text);

// What Tab may do with the line up to the cursor; nothing: the line is text.
std::optional<Completion> complete_slash(std::string_view line);

}  // namespace tandem::cli
