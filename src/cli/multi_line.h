// MultiLine: puts an input together that spans several lines.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace tandem::cli {

// A line that ends with a backslash goes on in the next one; """ opens a block that goes on to the next """ at the
// end of a line. A line that was pasted may have line ends in it, which are text.
class MultiLine {
  public:
    // True when the input is complete: take() it.
    bool push(std::string_view line);
    std::string take();

    // What has the same meaning when it is read again as a whole: the entry of a history.
    std::string source() const { return block_source_.empty() ? text_ : block_source_; }

    bool pending() const { return pending_; }  // in the middle of an input

  private:
    bool push_block(std::string_view line);

    std::string text_;
    std::string block_source_;  // a block with its """
    bool pending_ = false;
    bool block_ = false;
};

}  // namespace tandem::cli
