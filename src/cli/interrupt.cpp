#include "cli/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace tandem::cli {

namespace {

std::atomic<bool> interrupt{false};
std::atomic<int> interrupt_signal{SIGINT};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may touch nothing else");

// Readable after an interrupt: who waits for input waits for this too, as a flag wakes nobody.
int wake_event = -1;

void on_interrupt(int signal) {
    interrupt_signal.store(signal, std::memory_order_relaxed);
    interrupt.store(true, std::memory_order_relaxed);
    wake_waiting();
}

void reset_wake_event() {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t taken = ::read(wake_event, &count, sizeof(count));
}

}  // namespace

namespace {

void catch_signal(int signal, SecondInterrupt second) {
    if (wake_event < 0) wake_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    // Without SA_RESTART a wait at the prompt returns at once.
    action.sa_flags = second == SecondInterrupt::ends_program ? static_cast<int>(SA_RESETHAND) : 0;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

}  // namespace

void catch_interrupts(SecondInterrupt second) {
    catch_signal(SIGINT, second);
}

void catch_endings() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction now {};
        sigaction(signal, nullptr, &now);
        if (now.sa_handler != SIG_IGN) catch_signal(signal, SecondInterrupt::ends_program);  // as nohup has it
    }
}

int interrupt_exit_code() {
    return 128 + interrupt_signal.load(std::memory_order_relaxed);
}

const std::atomic<bool>& interrupt_flag() {
    return interrupt;
}

bool interrupted() {
    return interrupt.load(std::memory_order_relaxed);
}

bool take_interrupt() {
    reset_wake_event();  // first: an interrupt right after it is taken too, or wakes the next who waits
    return interrupt.exchange(false, std::memory_order_relaxed);
}

Waited wait_for_input(int file) {
    for (;;) {
        if (interrupted()) return Waited::interrupted;
        std::array<pollfd, 2> sources = {
            {{.fd = file, .events = POLLIN, .revents = 0}, {.fd = wake_event, .events = POLLIN, .revents = 0}}};
        const int ready = ::poll(sources.data(), sources.size(), -1);
        if (ready < 0 && errno == EINTR) continue;  // the flag or the event tells which signal it was
        if (interrupted()) return Waited::interrupted;
        if (ready < 0 || sources[0].revents != 0) return Waited::input;
        reset_wake_event();
        if (!interrupted()) return Waited::woken;
    }
}

void wake_waiting() {
    const int error = errno;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_event, &one, sizeof(one));
    errno = error;
}

}  // namespace tandem::cli
