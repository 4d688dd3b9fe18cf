// The commands of the program: each registers its options with the parser and says what it does.
#pragma once

#include <functional>

#include "base/result.h"

namespace CLI {
class App;
}

namespace tandem::cli {

struct Command {
    CLI::App* app;                      // its part of the command line
    std::function<Result<int>()> main;  // after the command line has been read; the exit code
};

Command add_run(CLI::App& parent);
Command add_serve(CLI::App& parent);
Command add_pull(CLI::App& parent);
Command add_list(CLI::App& parent);
Command add_show(CLI::App& parent);
Command add_rm(CLI::App& parent);
Command add_inspect(CLI::App& parent);
Command add_tokenize(CLI::App& parent);
Command add_eval(CLI::App& parent);
Command add_quantize(CLI::App& parent);
Command add_devices(CLI::App& parent);
Command add_bench(CLI::App& parent);
Command add_top(CLI::App& parent);
Command add_plan(CLI::App& parent);
Command add_doctor(CLI::App& parent);
Command add_npu(CLI::App& parent);
Command add_completion(CLI::App& parent);
Command add_complete(CLI::App& parent);  // for the shells
Command add_manual(CLI::App& parent);    // for the build

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells have it

// What the program does with its arguments; the exit code.
int run_program(int argc, const char* const* argv);

}  // namespace tandem::cli
