// Modules: parts of Tandem that need libraries which are not everywhere, in files of their own that are opened when
// they are first asked for. A program runs without them.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

// Before the definition of a function that a module offers: extern "C", and seen from outside.
#define TANDEM_MODULE_EXPORT extern "C" __attribute__((visibility("default")))

namespace tandem {

// A module shares classes with the program, so both must come from one build of one version.
std::string_view build_version();

// What a module defines once, for find_in_module() to compare.
#define TANDEM_MODULE_VERSION()                                \
    TANDEM_MODULE_EXPORT const char* tandem_module_version() { \
        return ::tandem::build_version().data();               \
    }

struct ModuleName {
    std::string_view name;     // "xrt": libtandem-xrt.so
    std::string_view package;  // that has it, for the message when it is missing
};

// The address of a function in a module, which stays open as long as the process lives. It is looked for beside the
// program (or library) that this code is part of, then in the folder "tandem" of the libraries that it is installed
// with. An error says what is missing: the module, a library that the module needs, or the right version. From any
// thread.
Result<void*> find_in_module(const ModuleName& module, const char* function);

}  // namespace tandem
