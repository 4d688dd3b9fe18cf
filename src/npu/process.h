// Another program: run to its end, with what it prints in a file.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::npu {

struct Process {
    std::vector<std::string> arguments;  // the program first
    std::filesystem::path directory;     // where it runs
    std::filesystem::path log;           // gets its output and errors, at the end of what is there
    std::vector<std::pair<std::string, std::string>> environment = {};  // on top of ours
};

// The exit code; 128 + the signal that ended it. It reads nothing from us.
Result<int> run_process(const Process& process);

}  // namespace tandem::npu
