// The user's directories, as the XDG Base Directory specification names them.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tandem::user {

// tandem's own folder in each; empty when there is no such place, because there is no home either.
std::filesystem::path state_directory();   // $XDG_STATE_HOME/tandem or ~/.local/state/tandem
std::filesystem::path cache_directory();   // $XDG_CACHE_HOME/tandem or ~/.cache/tandem
std::filesystem::path config_directory();  // $XDG_CONFIG_HOME/tandem or ~/.config/tandem

// "~/x" as the path in the user's home, as a shell would; every other path as it is.
std::string expand_home(std::string_view path);

}  // namespace tandem::user
