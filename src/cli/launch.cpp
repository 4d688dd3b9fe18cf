#include "cli/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/log.h"
#include "cli/command.h"
#include "cli/rank_job.h"

namespace tandem::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::seconds kLongestPause{60};
constexpr std::chrono::minutes kGoodRun{5};  // after which the next pause is the first again

std::vector<std::string> own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> arguments;
    for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
    std::error_code ignored;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (!arguments.empty() && !program.empty()) arguments.front() = program.string();
    return arguments;
}

sigset_t awaited_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, signal);
    return signals;
}

// In a group of its own, so that Ctrl-C reaches it through us. Its last words are the error when it cannot be started.
[[noreturn]] void become_mpirun(const std::vector<std::string>& arguments, pid_t parent) {
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kExitLost);
    if (const int nothing = open("/dev/null", O_RDONLY); nothing >= 0) dup2(nothing, STDIN_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execvp(pointers[0], pointers.data());
    const char* const why = errno == ENOENT ? "is not here: install openmpi-bin" : std::strerror(errno);
    dprintf(STDERR_FILENO, "tandem: --hosts: mpirun %s\n", why);
    _exit(1);
}

int exit_code(int status) {
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// One job after the other, and the signals that come meanwhile.
class Launcher {
  public:
    explicit Launcher(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

    Result<int> run() {
        const sigset_t signals = awaited_signals();
        sigprocmask(SIG_BLOCK, &signals, nullptr);
        std::chrono::seconds pause = kFirstPause;
        for (;;) {
            const auto begin = Clock::now();
            const int code = TRY(run_once());
            if (told_to_end_ > 0) return code;
            if (!is_lost(code)) return code;
            if (Clock::now() - begin > kGoodRun) pause = kFirstPause;
            log::warn("the job ended with {}: it is started again in {} s", code, pause.count());
            if (wait_for_end(pause)) return code;
            pause = std::min(2 * pause, kLongestPause);
        }
    }

  private:
    Result<int> run_once() {
        const pid_t parent = getpid();
        const pid_t child = fork();
        if (child < 0) return fail("mpirun cannot be started: {}", std::strerror(errno));
        if (child == 0) become_mpirun(arguments_, parent);
        const sigset_t signals = awaited_signals();
        for (;;) {
            int status = 0;
            if (waitpid(child, &status, WNOHANG) == child) return exit_code(status);
            int signal = 0;
            if (sigwait(&signals, &signal) != 0 || signal == SIGCHLD) continue;
            // mpirun passes the first on to all ranks, of whom rank 0 lets its answers end; by the other it ends them
            kill(child, told_to_end_++ == 0 ? SIGUSR1 : SIGTERM);
        }
    }

    // Whether somebody wants it to end within this time.
    bool wait_for_end(std::chrono::seconds pause) {
        const sigset_t signals = awaited_signals();
        const auto until = Clock::now() + pause;
        for (auto left = pause + std::chrono::nanoseconds(0); left.count() > 0; left = until - Clock::now()) {
            const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
            const timespec time{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
            const int signal = sigtimedwait(&signals, nullptr, &time);
            if (signal == SIGTERM || signal == SIGINT) return true;
        }
        return false;
    }

    std::vector<std::string> arguments_;
    int told_to_end_ = 0;
};

}  // namespace

bool is_lost(int exit_code) {
    return exit_code != 0 && exit_code != kExitFailed && exit_code != kExitUsage;
}

std::vector<std::string> launch_arguments(const LaunchOptions& options, const std::vector<std::string>& own,
                                          bool is_root) {
    const auto ranks = std::count(options.hosts.begin(), options.hosts.end(), ',') + 1;
    std::vector<std::string> arguments = {
        "mpirun", "-np", std::to_string(ranks), "--host", options.hosts, "--oversubscribe", "--bind-to", "none"};
    if (is_root) arguments.emplace_back("--allow-run-as-root");
    for (size_t i = 0; i < own.size(); ++i) {
        if (own[i] == "--hosts") {
            ++i;
        } else if (!own[i].starts_with("--hosts=")) {
            arguments.push_back(own[i]);
        }
    }
    if (!options.has_split) arguments.insert(arguments.end(), {"--split", "layers"});
    return arguments;
}

Result<int> launch(const LaunchOptions& options) {
    if (options.hosts.find(',') == std::string::npos || options.hosts.find(",,") != std::string::npos ||
        options.hosts.front() == ',' || options.hosts.back() == ',')
        return fail("--hosts {}: name two hosts or more, as a,b; one may be named twice", options.hosts);
    return Launcher(launch_arguments(options, own_arguments(), geteuid() == 0)).run();
}

}  // namespace tandem::cli
