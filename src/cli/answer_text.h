// AnswerText: an answer that arrives in pieces, as a terminal shows it: Markdown lightly, words not broken at the edge.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/code_fence.h"
#include "cli/word_wrap.h"

namespace tandem::cli {

// Headings and **bold** become bold, `code` and blocks of code a colour, the marks of lists dots; all else is left as
// it is. What may be a mark is held back until it is known to be one, within its line, so that nothing on the screen
// has to be taken back and no mark without its other half is lost.
class AnswerText {
  public:
    // `columns` as WordWrap has it.
    AnswerText(bool shows_markdown, std::function<size_t()> columns)
        : shows_markdown_(shows_markdown), wrap_(std::move(columns)) {}

    // What can be shown of the text so far.
    std::string push(std::string_view piece);
    // The rest, when the text ends.
    std::string finish();

  private:
    void take_all(bool is_end);
    size_t take(std::string_view text, bool is_end);
    size_t take_line_start(std::string_view text, bool is_end);
    size_t take_raw(std::string_view text);
    size_t take_code(std::string_view text, bool is_end);
    size_t take_bold(std::string_view text, bool is_end);
    size_t take_plain(std::string_view text, size_t length);
    void take_inner(std::string_view text);
    void end_line();
    void style(std::string_view sequence);

    bool shows_markdown_;
    WordWrap wrap_;
    CodeFence fence_;
    std::string out_;
    std::string held_;  // not shown yet
    bool at_line_start_ = true;
    bool is_raw_ = false;      // the line is code, or a fence
    bool is_heading_ = false;  // bold already
    char before_ = '\n';       // the last that was shown
};

// Whether standard output shows Markdown where nobody has said otherwise: a terminal, and not one without control
// sequences or with NO_COLOR.
bool can_show_markdown();

}  // namespace tandem::cli
