#include "cli/prompt_terminal.h"

#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <string_view>

#include "cli/interrupt.h"
#include "cli/paste.h"

namespace tandem::cli {

namespace {

// What the signal handlers see: plain data that does not change while they are installed.
termios modes_before{};
bool has_modes = false;
int screen_file = -1;
bool pastes_marked = false;
std::atomic<bool> was_stopped{false};
std::atomic<bool> was_resized{false};

void write_screen(std::string_view text) {
    [[maybe_unused]] const ssize_t written = ::write(screen_file, text.data(), text.size());
}

void restore_terminal() {
    if (pastes_marked) write_screen(kPasteOff);
    if (has_modes) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_before);
}

void on_end(int number) {
    restore_terminal();
    std::signal(number, SIG_DFL);
    ::raise(number);  // when this handler returns
}

void on_continue(int number);
void on_resize(int number);

struct Handled {
    int number;
    void (*handler)(int);
};
constexpr std::array<Handled, 6> kHandled = {{{SIGTERM, on_end},
                                              {SIGHUP, on_end},
                                              {SIGQUIT, on_end},
                                              {SIGTSTP, on_end},
                                              {SIGCONT, on_continue},
                                              {SIGWINCH, on_resize}}};
std::array<struct sigaction, kHandled.size()> actions_before{};

void install(const Handled& handled, struct sigaction* before) {
    struct sigaction action {};
    action.sa_handler = handled.handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(handled.number, &action, before);
}

void on_continue(int /*number*/) {
    for (const Handled& handled : kHandled) {
        if (handled.number == SIGTSTP) install(handled, nullptr);  // the stop took its handler away
    }
    if (pastes_marked) write_screen(kPasteOn);
    was_stopped.store(true, std::memory_order_relaxed);
    wake_waiting();
}

void on_resize(int /*number*/) {
    was_resized.store(true, std::memory_order_relaxed);
    wake_waiting();
}

}  // namespace

PromptTerminal::PromptTerminal(int screen, bool marks_pastes) {
    has_modes = ::tcgetattr(STDIN_FILENO, &modes_before) == 0;
    screen_file = screen;
    pastes_marked = marks_pastes;
    for (size_t i = 0; i < kHandled.size(); ++i) {
        install(kHandled[i], &actions_before[i]);
        // Who started the program with nohup does not want it to end.
        if (actions_before[i].sa_handler == SIG_IGN) ::sigaction(kHandled[i].number, &actions_before[i], nullptr);
    }
    if (pastes_marked) write_screen(kPasteOn);
}

PromptTerminal::~PromptTerminal() {
    if (pastes_marked) write_screen(kPasteOff);
    for (size_t i = 0; i < kHandled.size(); ++i) ::sigaction(kHandled[i].number, &actions_before[i], nullptr);
}

ScreenChange take_screen_change() {
    const bool resized = was_resized.exchange(false, std::memory_order_relaxed);
    const bool stopped = was_stopped.exchange(false, std::memory_order_relaxed);
    if (stopped) return ScreenChange::lost;
    return resized ? ScreenChange::resized : ScreenChange::none;
}

}  // namespace tandem::cli
