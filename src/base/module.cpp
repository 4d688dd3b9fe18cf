#include "base/module.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <filesystem>

namespace tandem {

namespace {

namespace fs = std::filesystem;

// The folder of the program or library that this code was linked into.
fs::path own_folder() {
    Dl_info info{};
    link_map* map = nullptr;
    void** const result = reinterpret_cast<void**>(&map);
    if (dladdr1(reinterpret_cast<const void*>(&own_folder), &info, result, RTLD_DL_LINKMAP) == 0) return {};
    std::error_code error;
    const bool is_program = *map->l_name == '\0';
    return fs::canonical(is_program ? "/proc/self/exe" : map->l_name, error).parent_path();
}

// Where a module may lie; the first that has it is taken.
std::array<fs::path, 5> folders() {
    const fs::path own = own_folder();
    return {own, own / "tandem", own / "../lib/tandem", own / "../lib" / TANDEM_MULTIARCH / "tandem",
            own / "../lib64/tandem"};
}

fs::path find_file(const std::string& file) {
    for (const fs::path& folder : folders()) {
        std::error_code error;
        if (!folder.empty() && fs::exists(folder / file, error)) return folder / file;
    }
    return {};
}

Status check_version(void* library, const fs::path& path) {
    using Version = const char*();
    auto* const version = reinterpret_cast<Version*>(dlsym(library, "tandem_module_version"));
    const std::string_view theirs = version == nullptr ? "none" : version();
    if (theirs == build_version()) return Ok{};
    return fail("{}: its version is {}, but that of the program {}: install both from one release", path.string(),
                theirs, build_version());
}

}  // namespace

std::string_view build_version() {
    return TANDEM_VERSION;
}

Result<void*> find_in_module(const ModuleName& module, const char* function) {
    const std::string file = fmt::format("libtandem-{}.so", module.name);
    const fs::path path = find_file(file);
    if (path.empty()) return fail("{} is not here: install the package {}", file, module.package);
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail("{} cannot be opened: {}", path.string(), dlerror());
    TRY(check_version(library, path));
    void* const found = dlsym(library, function);
    if (found == nullptr)
        return fail("{} has no {}: install the package {} again", path.string(), function, module.package);
    return found;
}

}  // namespace tandem
