#include "text/answer_format.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tandem::text {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kReasoningMarks = {{
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<thinking>", "</thinking>"},
    {"<|channel>thought", "<channel|>"},
}};

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

CallStyle call_style(std::string_view source) {
    if (contains(source, kHarmonyChannel) && contains(source, kHarmonyMessage)) return CallStyle::harmony;
    if (contains(source, "<|tool_call>")) return CallStyle::called;
    if (contains(source, "<arg_key>")) return CallStyle::keyed;
    if (contains(source, "<tool_call>")) return contains(source, "<function=") ? CallStyle::spelled : CallStyle::tagged;
    if (contains(source, "[TOOL_CALLS]")) {
        return contains(source, call_syntax(CallStyle::named).after_name) ? CallStyle::named : CallStyle::listed;
    }
    // Phi 4 mini's template shows its tools so, and no calls.
    const bool barred = contains(source, "<|tool_call|>") || contains(source, "<|/tool|>");
    return barred ? CallStyle::barred : CallStyle::plain;
}

}  // namespace

AnswerFormat answer_format(std::string_view template_source) {
    AnswerFormat format;
    for (const auto& [begin, end] : kReasoningMarks) {
        if (!contains(template_source, end)) continue;
        format.reasoning_begin = begin;
        format.reasoning_end = end;
        break;
    }
    format.knows_calls = contains(template_source, "tools");
    format.calls = call_style(template_source);
    if (format.calls == CallStyle::harmony) {
        format.reasoning_begin = "<|channel|>analysis<|message|>";
        format.reasoning_end = kHarmonyEnd;
    }
    if (format.calls == CallStyle::plain) {
        format.knows_calls &=
            contains(template_source, R"({"name": )") && contains(template_source, R"("parameters": )");
    }
    return format;
}

std::string_view opening_of(const AnswerFormat& format) {
    return format.calls == CallStyle::harmony ? "<|channel|>final<|message|>" : "";
}

bool opens_reasoning(const AnswerFormat& format, std::string_view prompt) {
    if (!format.reasons()) return false;
    const size_t last = prompt.find_last_not_of(" \n\t\r");
    return prompt.substr(0, last + 1).ends_with(format.reasoning_begin);  // npos + 1 is 0
}

std::vector<std::string_view> marks_of(const AnswerFormat& format, bool has_tools) {
    if (format.calls == CallStyle::harmony) {
        return {kHarmonyStart, kHarmonyChannel, kHarmonyConstrain, kHarmonyMessage, kHarmonyEnd};
    }
    std::vector<std::string_view> marks;
    if (format.reasons()) {
        const size_t token = format.reasoning_begin.find_first_of(">]") + 1;  // a word may follow
        marks = {format.reasoning_begin.substr(0, token), format.reasoning_end};
    }
    if (!has_tools) return marks;
    const CallSyntax& calls = call_syntax(format.calls);
    const std::string_view quote = calls.form == CallSyntax::Form::called ? kTextMark : std::string_view();
    const std::string_view id = format.calls == CallStyle::named ? kCallIdMark : std::string_view();
    for (const std::string_view written : {calls.begin, calls.end, quote, calls.before_key, calls.after_key,
                                           calls.before_value, calls.after_value, id, calls.after_name}) {
        const std::string_view mark = mark_of(written);
        if (mark.size() > 1) marks.push_back(mark);
    }
    return marks;
}

}  // namespace tandem::text
