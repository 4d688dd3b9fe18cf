#include "cli/interrupt.h"

#include <csignal>

namespace tandem::cli {

namespace {

std::atomic<bool> interrupt{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may touch nothing else");

void on_interrupt(int /*signal*/) {
    interrupt.store(true, std::memory_order_relaxed);
}

}  // namespace

void catch_interrupts(SecondInterrupt second) {
    struct sigaction action {};
    action.sa_handler = on_interrupt;
    // Without SA_RESTART a read at the prompt returns at once.
    action.sa_flags = second == SecondInterrupt::ends_program ? static_cast<int>(SA_RESETHAND) : 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
}

std::atomic<bool>& interrupt_flag() {
    return interrupt;
}

bool interrupted() {
    return interrupt.load(std::memory_order_relaxed);
}

}  // namespace tandem::cli
