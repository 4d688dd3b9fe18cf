// AnswerReader: splits the text of an answer, while it is being written, into content, reasoning and calls of tools.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_format.h"
#include "text/answer_part.h"
#include "text/call_block.h"
#include "text/harmony_reader.h"
#include "text/json_scanner.h"

namespace tandem::text {

struct Prompt;

struct AnswerReaderOptions {
    AnswerFormat format;
    bool splits_reasoning = true;
    bool begins_in_reasoning = false;     // Prompt::begins_in_reasoning
    std::vector<std::string> tools = {};  // their names; if there are none, no calls are looked for
    TextParameters text_parameters = {};  // for styles of calls that do not say what is text
};

// Of the answer to a prompt that these tools were offered in, in OpenAI's form; null: none.
AnswerReaderOptions answer_reader_options(const Prompt& prompt, const nlohmann::ordered_json& tools);

// However the text is cut into pieces, the parts are the same when neighbours of one kind are joined. No text is lost
// but for the marks and the white space around them; what looks like a call and is none is content. A call without its
// mark is one where the content begins or after another call, and only of a tool that is offered. Calls are handed out
// when they are complete; only at the end of a text that was cut off there may be half of one.
class AnswerReader {
  public:
    explicit AnswerReader(AnswerReaderOptions options);

    // What is certain now.
    std::vector<AnswerPart> push(std::string_view text);
    // What was held back because it could have become a mark or a call. With `keeps_cut_calls` a call that has its name
    // and lacks its end is one, with as much of its arguments as there is; otherwise it is content.
    std::vector<AnswerPart> finish(bool keeps_cut_calls = false);

    bool in_reasoning() const { return harmony_ ? harmony_->in_reasoning() : state_ == State::reasoning; }

  private:
    enum class State : uint8_t {
        opening,    // nothing but white space: reasoning may begin
        reasoning,  //
        start,      // of the content, and after a call: here a call needs no mark
        content,    //
        call,       // pending_ begins with it
        closing,    // a call is complete, its end mark is not
    };

    bool step();  // false: more text is needed
    bool step_opening();
    bool step_reasoning();
    bool step_start();
    bool step_content();
    bool step_call();
    bool step_block();
    bool step_closing();
    enum class Guess : uint8_t { no, maybe, yes };
    // What comes before the value of a call.
    struct Head {
        Guess is_call = Guess::no;
        size_t length = 0;           // up to the value, or to what cannot be
        std::string_view name = {};  // where the style has one
    };
    Head read_head() const;
    static Guess guess_call(std::string_view text);
    bool offers(std::string_view tool) const;
    std::vector<AnswerPart> read_calls(std::string_view value) const;
    bool read_call(std::string_view text, const nlohmann::json& call, std::vector<AnswerPart>& calls) const;
    std::vector<AnswerPart> read_cut_calls(std::string_view value) const;
    void read_cut_call(std::string_view text, std::vector<AnswerPart>& calls) const;
    bool take_calls(size_t length);
    bool refuse_call(size_t length);

    std::string_view rest() const { return std::string_view(pending_).substr(at_); }
    bool enter(State state);
    void emit(AnswerPart::Kind kind, std::string_view text);
    std::vector<AnswerPart> hand_out();

    AnswerReaderOptions options_;
    std::optional<HarmonyReader> harmony_;  // reads everything, for the style of its name
    const CallSyntax* syntax_ = nullptr;
    std::string_view call_begin_;
    std::string_view call_end_;
    State state_ = State::opening;
    bool after_mark_ = false;  // white space does not count
    std::string pending_;      // from at_ on
    size_t at_ = 0;
    std::vector<AnswerPart> parts_;

    // Of State::call.
    bool marked_ = false;
    bool had_call_ = false;  // some were complete before
    JsonScanner scanner_;
    std::string name_;        // before the value, where the style has one
    size_t value_begin_ = 0;  // in rest()
    size_t scanned_ = 0;      // of rest(); 0: the value has not begun
};

}  // namespace tandem::text
