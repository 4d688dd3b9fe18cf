// LineEditor: lines from a terminal, with editing, history, completion, pasted texts and Ctrl-C that ends the line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cli/completion.h"

namespace tandem::cli {

class LineEditor {
  public:
    // What Tab may do with the line up to the cursor; nothing: the line is text, in which Tab is a character.
    using Completer = std::function<std::optional<Completion>(std::string_view line)>;

    explicit LineEditor(Completer completer);
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;
    ~LineEditor();

    enum class Event : unsigned char { line, interrupt, end };
    struct Input {
        Event event;
        // Of a line, without its end; of an interrupt, what had been typed. What was pasted may have several lines.
        std::string text;
    };
    Input read(const std::string& prompt);

    // Keeps an input in the history: one entry, whatever number of lines it has.
    void remember(const std::string& input);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Where the history is kept: $XDG_STATE_HOME/tandem/history or ~/.local/state/tandem/history; empty: nowhere.
std::string history_path();

}  // namespace tandem::cli
