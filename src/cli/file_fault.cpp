#include "cli/file_fault.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string_view>

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

void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
    static std::atomic_flag reporting;
    while (reporting.test_and_set()) ::pause();  // another thread is at it, and ends the program
    const std::string_view path = mapped_path(reinterpret_cast<uintptr_t>(info->si_addr));
    if (path.empty()) {  // not a file, but a fault of our own: it happens again at once, and ends the program as usual
        std::signal(SIGBUS, SIG_DFL);
        return;
    }
    put("tandem: ");
    put(path);
    put(": the file got shorter or could not be read while it was in use; start again when it is whole\n");
    ::_exit(kExitFailed);
}

}  // namespace

void explain_file_faults() {
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
}

}  // namespace tandem::cli
