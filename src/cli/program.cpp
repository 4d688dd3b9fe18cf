#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/command.h"
#include "cli/file_fault.h"
#include "cli/interrupt.h"
#include "cli/usage.h"

namespace tandem::cli {

namespace {

constexpr const char* kDescription =
    "Tandem runs large language models on this machine.\n"
    "MODEL is a GGUF file, a Hugging Face directory, the name of a model that is here (tandem list) or to be fetched\n"
    "(tandem pull), or that of the one inside the program (tales).";

constexpr const char* kExamples =
    "Examples:\n"
    "  tandem run                               talk to the model inside the program\n"
    "  tandem run \"Tell me a story about a fox\"  one answer, then exit\n"
    "  tandem run gemma3:4b                     fetch a model, once, and talk to it\n"
    "  tandem run gemma-3-1b.gguf               talk to a model of your own\n"
    "  tandem serve gemma-3-1b.gguf             an OpenAI-compatible server and a chat page on port 8080\n"
    "  tandem inspect gemma-3-1b.gguf           what is in a model file\n"
    "\n"
    "`tandem COMMAND --help` explains a command. Results go to standard output, everything else to standard error.\n"
    "Exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.";

void print_error(const std::string& message) {
    std::fprintf(stderr, "tandem: %s\n", message.c_str());
}

int execute(const Command& command) {
    const Result<int> code = command.main();
    if (!code) {
        print_error(code.error().message);
        return interrupted() ? interrupt_exit_code() : kExitFailed;
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        print_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
        return kExitFailed;
    }
    return *code;
}

int parse_and_execute(int argc, const char* const* argv) {
    CLI::App app(kDescription, "tandem");
    app.set_version_flag("--version", "tandem " TANDEM_VERSION);
    app.set_help_flag("-h,--help", "Print this help and exit");
    app.footer(kExamples);
    app.require_subcommand(0, 1);  // so that a wrong one is named, where it would only be missed
    const std::vector<Command> commands = {add_run(app),        add_serve(app),    add_pull(app),    add_list(app),
                                           add_show(app),       add_rm(app),       add_inspect(app), add_tokenize(app),
                                           add_eval(app),       add_quantize(app), add_devices(app), add_bench(app),
                                           add_top(app),        add_plan(app),     add_doctor(app),  add_npu(app),
                                           add_completion(app), add_complete(app), add_manual(app)};
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);  // help and version
        print_error(explain_usage(app, error));
        return kExitUsage;
    }
    for (const Command& command : commands) {
        if (command.app->parsed()) return execute(command);
    }
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
}

}  // namespace

int run_program(int argc, const char* const* argv) {
    std::signal(SIGPIPE, SIG_DFL);  // `tandem ... | head` ends quietly, whatever the parent process had set
    end_at_file_faults();
    log::init(spdlog::level::warn);
    try {
        return parse_and_execute(argc, argv);
    } catch (const std::bad_alloc&) {
        print_error("out of memory: take a smaller model, a shorter --context, or a machine with more memory");
    } catch (const std::system_error& error) {
        const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;  // from std::thread
        print_error(fmt::format(
            "{}: {}",
            no_thread ? "cannot start a thread, memory or processes are limited too much" : "unexpected error",
            error.what()));
    } catch (const std::exception& error) {
        print_error(fmt::format("unexpected error: {}", error.what()));
    }
    return kExitFailed;
}

}  // namespace tandem::cli
