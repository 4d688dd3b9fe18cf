// LineEditor: lines from a terminal, with editing, history and Ctrl-C that clears the line.
#pragma once

#include <memory>
#include <string>

namespace tandem::cli {

class LineEditor {
  public:
    LineEditor();
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;
    ~LineEditor();

    enum class Event : unsigned char { line, interrupt, end };
    struct Input {
        Event event;
        std::string text;  // of a line, without its end; of an interrupt, what had been typed
    };
    Input read(const std::string& prompt);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Where the history is kept: $XDG_STATE_HOME/tandem/history or ~/.local/state/tandem/history; empty: nowhere.
std::string history_path();

}  // namespace tandem::cli
