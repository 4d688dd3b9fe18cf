// HarmonyReader: splits an answer in the form of gpt-oss, messages in channels, into content, reasoning and calls of
// tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_part.h"

namespace tandem::text {

// The prompt has ended in <|start|>assistant, so the first header lacks that. Channel `analysis` is reasoning, a
// message to=functions.NAME is a call, everything else content; text that no header comes before is content too.
class HarmonyReader {
  public:
    explicit HarmonyReader(bool has_tools) : has_tools_(has_tools) {}

    // What is certain now.
    std::vector<AnswerPart> push(std::string_view text);
    // As AnswerReader::finish(). A call ends with the answer: the token after it is one that stops.
    std::vector<AnswerPart> finish(bool keeps_cut_calls);

    bool in_reasoning() const { return state_ == State::body && kind_ == AnswerPart::Kind::reasoning; }

  private:
    enum class State : uint8_t { start, header, body };

    bool step();  // false: more text is needed
    bool step_start();
    bool step_header();
    bool step_body();
    void read_header(std::string_view header);
    void emit(std::string_view text);
    void end_call(bool keeps_cut_calls);

    bool has_tools_;
    State state_ = State::start;
    AnswerPart::Kind kind_ = AnswerPart::Kind::content;
    std::string tool_;       // of a call
    std::string arguments_;  // so far
    std::string pending_;
    std::vector<AnswerPart> parts_;
};

}  // namespace tandem::text
