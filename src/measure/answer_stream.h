// AnswerStream: a streamed chat completion as it comes, with the moments of its pieces and what is wrong with it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::measure {

struct StreamUsage {
    int prompt_tokens = 0;
    int completion_tokens = 0;
    bool adds_up = true;  // the total is their sum
};

class AnswerStream {
  public:
    // What came at a moment; false: no more is wanted, error() says why.
    bool push(std::string_view bytes, double at_s);
    // The line ended.
    void finish();

    // The moments at which pieces of the answer came.
    const std::vector<double>& pieces_s() const { return pieces_s_; }
    const std::optional<StreamUsage>& usage() const { return usage_; }
    // Empty: a whole answer.
    const std::string& error() const { return error_; }

  private:
    void take_line(std::string_view line, double at_s);
    void take_event(std::string_view json, double at_s);

    std::string line_;
    std::vector<double> pieces_s_;
    std::optional<StreamUsage> usage_;
    std::string error_;
    bool ended_ = false;  // the choice, by a reason
    bool done_ = false;   // the stream, by its mark
};

}  // namespace tandem::measure
