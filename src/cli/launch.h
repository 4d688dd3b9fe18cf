// --hosts: starts this command as a job of ranks by mpirun, and starts it again whole when it was lost.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::cli {

struct LaunchOptions {
    std::string hosts;  // "a,b,c", of the ranks in their order; one may be named several times
    bool has_split = false;
};

// Runs until the job has ended for good; its exit code. SIGTERM and SIGINT let answers end, a second one does not.
Result<int> launch(const LaunchOptions& options);

// Of an mpirun that ended so: whether a rank was lost, and not refused by what a start again would not change.
bool is_lost(int exit_code);

// What mpirun is called with for a command that was called with `own`, the program's path first.
std::vector<std::string> launch_arguments(const LaunchOptions& options, const std::vector<std::string>& own,
                                          bool is_root);

}  // namespace tandem::cli
