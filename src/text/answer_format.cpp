#include "text/answer_format.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::text {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kReasoningMarks = {{
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<thinking>", "</thinking>"},
}};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

CallMarks call_marks(CallStyle style) {
    switch (style) {
        case CallStyle::tagged:
            return {.begin = "<tool_call>", .end = "</tool_call>"};
        case CallStyle::listed:
        case CallStyle::named:
            return {.begin = "[TOOL_CALLS]"};
        case CallStyle::plain:
            break;
    }
    return {.begin = "<|python_tag|>"};
}

AnswerFormat answer_format(std::string_view template_source) {
    AnswerFormat format;
    for (const auto& [begin, end] : kReasoningMarks) {
        if (!contains(template_source, end)) continue;
        format.reasoning_begin = begin;
        format.reasoning_end = end;
        break;
    }
    format.knows_calls = contains(template_source, "tools");
    if (contains(template_source, "<tool_call>") && !contains(template_source, "<function=")) {
        format.calls = CallStyle::tagged;
    } else if (contains(template_source, "[TOOL_CALLS]")) {
        format.calls = contains(template_source, kArgumentsMark) ? CallStyle::named : CallStyle::listed;
    } else {
        format.calls = CallStyle::plain;
        format.knows_calls &=
            contains(template_source, R"({"name": )") && contains(template_source, R"("parameters": )");
    }
    return format;
}

bool opens_reasoning(const AnswerFormat& format, std::string_view prompt) {
    if (!format.reasons()) return false;
    const size_t last = prompt.find_last_not_of(" \n\t\r");
    return prompt.substr(0, last + 1).ends_with(format.reasoning_begin);  // npos + 1 is 0
}

std::vector<std::string_view> marks_of(const AnswerFormat& format, bool has_tools) {
    std::vector<std::string_view> marks;
    if (format.reasons()) marks = {format.reasoning_begin, format.reasoning_end};
    if (!has_tools) return marks;
    const CallMarks calls = call_marks(format.calls);
    for (const std::string_view mark : {calls.begin, calls.end}) {
        if (!mark.empty()) marks.push_back(mark);
    }
    if (format.calls == CallStyle::named) marks.insert(marks.end(), {kCallIdMark, kArgumentsMark});
    return marks;
}

}  // namespace tandem::text
