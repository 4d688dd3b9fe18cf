// AnswerFormat: how a model marks its reasoning and its calls of tools, told from the text of its chat template.
#pragma once

#include <string_view>
#include <vector>

#include "text/call_syntax.h"

namespace tandem::text {

struct AnswerFormat {
    std::string_view reasoning_begin;  // empty: the model does not write down its reasoning
    std::string_view reasoning_end;
    CallStyle calls = CallStyle::plain;
    bool knows_calls = false;  // the template says how to call; if not, a grammar must hold the answer to `plain`

    bool reasons() const { return !reasoning_begin.empty(); }
};

// By the marks that the text of a chat template has: reasoning is split where it has one of the known pairs, such as
// <think> and </think>; of the styles of calls the first whose mark is in the text; `plain` if there is none.
AnswerFormat answer_format(std::string_view template_source);

// What is to be written for the model before a text that a grammar holds from its first letter, or that is begun.
std::string_view opening_of(const AnswerFormat& format);

// Whether the prompt leaves the model in the middle of its reasoning, as templates do that write <think> themselves.
bool opens_reasoning(const AnswerFormat& format, std::string_view prompt);

// The marks of reasoning, and of calls if there are tools.
std::vector<std::string_view> marks_of(const AnswerFormat& format, bool has_tools);

}  // namespace tandem::text
