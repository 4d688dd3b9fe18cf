#include "npu/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tandem::npu {
namespace {

// The parts of a spawn that have to be given back.
class SpawnActions {
  public:
    SpawnActions() { posix_spawn_file_actions_init(&actions_); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
    posix_spawn_file_actions_t* get() { return &actions_; }

  private:
    posix_spawn_file_actions_t actions_{};
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> all;
    all.reserve(strings.size() + 1);
    for (std::string& string : strings) all.push_back(string.data());
    all.push_back(nullptr);
    return all;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& more) {
    std::vector<std::string> all;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        bool replaced = false;
        for (const auto& setting : more) replaced = replaced || text.substr(0, text.find('=')) == setting.first;
        if (!replaced) all.emplace_back(text);
    }
    for (const auto& setting : more) all.push_back(setting.first + "=" + setting.second);
    return all;
}

int wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    constexpr int kSignalled = 128;  // as shells have it
    return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

}  // namespace

Result<int> run_process(const Process& process) {
    SpawnActions actions;
    const std::string log = process.log.string();
    posix_spawn_file_actions_addopen(actions.get(), STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(actions.get(), STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(actions.get(), STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_addchdir_np(actions.get(), process.directory.c_str());
    std::vector<std::string> arguments = process.arguments;
    std::vector<std::string> environment = environment_with(process.environment);
    pid_t child = 0;
    const int error = posix_spawn(&child, arguments.front().c_str(), actions.get(), nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
    if (error != 0) return fail("cannot start {}: {}", arguments.front(), std::strerror(error));
    return wait_for(child);
}

}  // namespace tandem::npu
