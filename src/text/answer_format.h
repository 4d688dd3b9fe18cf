// AnswerFormat: how a model marks its reasoning and its calls of tools, told from the text of its chat template.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::text {

// How a model writes the calls of tools. Marks in [] or <||> are control tokens of the vocabulary for most models
// (marks_of() are to be shown in the text); where they are not, a call at the beginning is known without its mark.
enum class CallStyle : uint8_t {
    tagged,   // <tool_call>{"name": ..., "arguments": {...}}</tool_call>, several of them (Hermes, Qwen)
    listed,   // [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...] (Mistral)
    named,    // [TOOL_CALLS]name[ARGS]{...}, in some with [CALL_ID]id after the name (Mistral since 2025)
    plain,    // <|python_tag|>{"name": ..., "parameters": {...}} (Llama 3), and what a grammar holds others to
    barred,   // <|tool_call|>[{"name": ..., "arguments": {...}}, ...]<|/tool_call|>, the end left out by some (Granite,
              // Phi)
    spelled,  // <tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call> (Qwen 3 Coder, 3.5)
    keyed,    // <tool_call>NAME<arg_key>KEY</arg_key><arg_value>value</arg_value></tool_call> (GLM 4.5)
    called,   // <|tool_call>call:NAME{key:value,...}<tool_call|>, texts between <|"|> (Gemma 4)
    harmony,  // a message to=functions.NAME in a channel (gpt-oss); reasoning and answer are messages in others
};
// Whether what is between the marks of a call is no JSON.
bool is_block(CallStyle style);

// Of harmony: <|start|>assistant<|channel|>analysis<|message|>...<|end|>, and so on.
inline constexpr std::string_view kHarmonyStart = "<|start|>";
inline constexpr std::string_view kHarmonyChannel = "<|channel|>";
inline constexpr std::string_view kHarmonyConstrain = "<|constrain|>";
inline constexpr std::string_view kHarmonyMessage = "<|message|>";
inline constexpr std::string_view kHarmonyEnd = "<|end|>";

inline constexpr std::string_view kTextMark = "<|\"|>";  // around texts in the calls of Gemma 4

inline constexpr std::string_view kArgumentsMark = "[ARGS]";
inline constexpr std::string_view kCallIdMark = "[CALL_ID]";

struct CallMarks {
    std::string_view begin;
    std::string_view end = {};
};
CallMarks call_marks(CallStyle style);

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

// What is to be written for the model before an answer that a grammar holds from its first letter: a call, or a text.
std::string_view opening_of(const AnswerFormat& format, bool is_call);

// Whether the prompt leaves the model in the middle of its reasoning, as templates do that write <think> themselves.
bool opens_reasoning(const AnswerFormat& format, std::string_view prompt);

// The marks of reasoning, and of calls if there are tools.
std::vector<std::string_view> marks_of(const AnswerFormat& format, bool has_tools);

}  // namespace tandem::text
