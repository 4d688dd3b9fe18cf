// MultiLine: puts an input together that spans several lines.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace tandem::cli {

// A line that ends with a backslash goes on in the next one; """ opens a block that goes on to the next """ at the
// end of a line.
class MultiLine {
  public:
    // True when the input is complete: take() it.
    bool push(std::string_view line);
    std::string take();

    bool pending() const { return pending_; }  // in the middle of an input

  private:
    bool push_block(std::string_view line);

    std::string text_;
    bool pending_ = false;
    bool block_ = false;
};

}  // namespace tandem::cli
