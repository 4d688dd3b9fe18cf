#include "user/paths.h"

#include <cstdlib>

namespace tandem::user {

namespace {

std::filesystem::path user_directory(const char* variable, const char* in_home) {
    const char* const base = std::getenv(variable);
    const char* const home = std::getenv("HOME");
    if (base != nullptr && *base == '/') return std::filesystem::path(base) / "tandem";
    if (home != nullptr && *home == '/') return std::filesystem::path(home) / in_home / "tandem";
    return {};
}

}  // namespace

std::filesystem::path state_directory() {
    return user_directory("XDG_STATE_HOME", ".local/state");
}

std::filesystem::path cache_directory() {
    return user_directory("XDG_CACHE_HOME", ".cache");
}

std::filesystem::path config_directory() {
    return user_directory("XDG_CONFIG_HOME", ".config");
}

std::string expand_home(std::string_view path) {
    const char* const home = std::getenv("HOME");
    const bool in_home = path == "~" || path.starts_with("~/");
    if (!in_home || home == nullptr || *home != '/') return std::string(path);
    return home + std::string(path.substr(1));
}

}  // namespace tandem::user
