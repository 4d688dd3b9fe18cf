#include "cli/file_fault.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/file.h"
#include "cli/command.h"

namespace tandem::cli {

namespace {

// All of this runs in a signal handler: system calls and memory that is there already, nothing else.

void put(std::string_view text) {
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

// The path in a line of /proc/self/maps, "begin-end access offset device inode path", if the address is in its range.
std::string_view path_at(std::string_view line, uintptr_t address) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    const char* const last = line.data() + line.size();
    const auto first = std::from_chars(line.data(), last, begin, 16);
    if (first.ec != std::errc() || first.ptr == last) return {};
    const auto second = std::from_chars(first.ptr + 1, last, end, 16);
    const size_t slash = line.find('/');
    if (second.ec != std::errc() || address < begin || address >= end || slash == std::string_view::npos) return {};
    return line.substr(slash);
}

// Which file is mapped there; empty: none.
std::string_view mapped_path(uintptr_t address) {
    static std::array<char, 8192> buffer;  // longer than any line, and not on a stack that may be short
    const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    size_t size = 0;
    for (;;) {
        const ssize_t count = ::read(file, buffer.data() + size, buffer.size() - size);
        if (count <= 0) return {};
        size += static_cast<size_t>(count);
        std::string_view rest(buffer.data(), size);
        for (size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
            if (const std::string_view path = path_at(rest.substr(0, end), address); !path.empty()) return path;
            rest.remove_prefix(end + 1);
        }
        size = rest.size();  // the beginning of the next line moves to the front
        std::memmove(buffer.data(), rest.data(), size);
    }
}

// Names the file at the address in one line; false: there is none.
bool report(const siginfo_t& info, std::string_view consequence) {
    const std::string_view path = mapped_path(reinterpret_cast<uintptr_t>(info.si_addr));
    if (path.empty()) return false;
    put("tandem: ");
    put(path);
    put(": the file got shorter or could not be read while it was in use; ");
    put(consequence);
    return true;
}

// A fault of our own, not a file's: it happens again at once, and ends the program as usual.
void let_it_end() {
    std::signal(SIGBUS, SIG_DFL);
}

void end_program(int /*signal*/, siginfo_t* info, void* /*context*/) {
    static std::atomic_flag reporting;
    while (reporting.test_and_set()) ::pause();  // another thread is at it, and ends the program
    if (!report(*info, "start again when it is whole\n")) return let_it_end();
    ::_exit(kExitFailed);
}

void lose_file(int /*signal*/, siginfo_t* info, void* /*context*/) {
    static std::atomic_flag reporting;
    while (reporting.test_and_set()) ::sched_yield();
    if (!is_lost({static_cast<const std::byte*>(info->si_addr), 1})) report(*info, "its model fails, others go on\n");
    if (!fill_lost_mapping(info->si_addr)) let_it_end();
    reporting.clear();
}

void on_bus_errors(void (*handle)(int, siginfo_t*, void*)) {
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void end_at_file_faults() {
    on_bus_errors(end_program);
}

void survive_file_faults() {
    on_bus_errors(lose_file);
}

}  // namespace tandem::cli
