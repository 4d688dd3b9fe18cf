// PromptTerminal: the terminal while it waits at a prompt, put back as it was by whatever ends or stops the program.
#pragma once

namespace tandem::cli {

// Asks for marks around pasted text. One at a time, made before the line editor changes the modes of the terminal:
// signals that end the program (SIGTERM, SIGHUP, SIGQUIT) or stop it (Ctrl-Z) restore them first.
class PromptTerminal {
  public:
    // `screen` is where the prompt shows; `marks_pastes`: the terminal there understands control sequences.
    PromptTerminal(int screen, bool marks_pastes);
    PromptTerminal(const PromptTerminal&) = delete;
    PromptTerminal& operator=(const PromptTerminal&) = delete;
    ~PromptTerminal();
};

// What happened to the screen since the last call; both wake who waits for input.
enum class ScreenChange : unsigned char {
    none,
    resized,
    lost,  // the program was stopped, and others wrote on it
};
ScreenChange take_screen_change();

}  // namespace tandem::cli
