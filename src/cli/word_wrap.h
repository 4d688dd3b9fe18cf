// WordWrap: breaks a text that arrives in pieces between its words, as wide as the terminal is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cli/code_fence.h"

namespace tandem::cli {

// A word is held back until its end is there, so that nothing on the screen has to be taken back. Lines between ```
// or ~~~ are left as they are.
class WordWrap {
  public:
    // `columns` is asked for before every word, since windows change; 0: there is no edge.
    explicit WordWrap(std::function<size_t()> columns) : columns_(std::move(columns)) {}

    // What can be shown of the text so far.
    std::string push(std::string_view piece);
    // A control sequence, which takes no columns: it goes where the next character goes.
    std::string style(std::string_view sequence);
    // The rest, when the text ends.
    std::string finish();

  private:
    void add(std::string_view bytes, uint32_t code);
    void end_word();
    void end_line();

    std::function<size_t()> columns_;
    std::string out_;
    std::string partial_;  // bytes of a character that is not complete
    std::string spaces_;   // before the word, shown only when the word follows on the same line
    std::string word_;     // held back
    CodeFence fence_;
    size_t column_ = 0;
    size_t spaces_width_ = 0;
    size_t word_width_ = 0;
};

// The columns of the terminal that the file is; 0 when it is none.
size_t terminal_columns(int file);
size_t output_columns();  // of standard output

}  // namespace tandem::cli
