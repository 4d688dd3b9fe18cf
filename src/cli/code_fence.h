// CodeFence: which lines of a Markdown text are code between ``` or ~~~, told character by character.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::cli {

class CodeFence {
  public:
    static constexpr size_t kLeastMarks = 3;

    // What the line goes on with; no line break.
    void add(std::string_view bytes);
    void end_line();

    // Whether the line belongs to a block of code that an earlier one has opened; its last line is in it too.
    bool is_code() const { return !fence_.empty(); }

  private:
    std::string line_start_;  // the first characters of the line, which tell a fence
    std::string fence_;       // that opened the code we are in; empty: in text
};

}  // namespace tandem::cli
