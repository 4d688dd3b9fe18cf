// CallSyntax: how a family of models writes calls of tools, as data: what reads answers and what makes grammars of
// calls both go by it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

namespace tandem::text {

// Marks in [] or <||> are control tokens of the vocabulary for most models (marks_of() are to be shown in the text);
// where they are not, a call at the beginning is known without its mark.
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

// Of harmony: <|start|>assistant<|channel|>analysis<|message|>...<|end|>, and so on.
inline constexpr std::string_view kHarmonyStart = "<|start|>";
inline constexpr std::string_view kHarmonyChannel = "<|channel|>";
inline constexpr std::string_view kHarmonyConstrain = "<|constrain|>";
inline constexpr std::string_view kHarmonyMessage = "<|message|>";
inline constexpr std::string_view kHarmonyEnd = "<|end|>";
inline constexpr std::string_view kHarmonyCall = "<|call|>";
inline constexpr std::string_view kHarmonyReturn = "<|return|>";

inline constexpr std::string_view kTextMark = "<|\"|>";  // around texts in the calls of Gemma 4
inline constexpr std::string_view kCallIdMark = "[CALL_ID]";

// What is written in front of, between and after the parts of a call, white space with it: a reader looks for the marks
// alone (mark_of). What a family does not have is empty.
struct CallSyntax {
    enum class Form : uint8_t {
        object,    // JSON with the name and the arguments
        named,     // the name, then the arguments as JSON
        elements,  // the name, then each argument by itself: text as it is, all else as JSON
        called,    // the name, then the arguments as JSON is written but for bare keys, texts between kTextMark
    };
    Form form = Form::object;
    std::string_view begin;                    // of a call, or of a list of them
    std::string_view end = {};                 //
    bool is_list = false;                      // of objects
    bool begins_bare = false;                  // the mark is understood and not needed
    bool ends_bare = false;                    //
    bool one_only = false;                     // calls are made one at a time
    std::string_view between = {};             // calls made at once
    std::string_view before_name = {};         // of all forms but `object`
    std::string_view after_name = {};          //
    std::string_view before_key = {};          // of elements
    std::string_view after_key = {};           //
    std::string_view before_value = {};        //
    std::string_view after_value = {};         //
    std::string_view after_arguments = {};     //
    bool loose_breaks = false;                 // line breaks are left out by some models
    std::string_view arguments = "arguments";  // the key in `object`, where the template says how to call
};

const CallSyntax& call_syntax(CallStyle style);

// A mark without the white space around it.
std::string_view mark_of(std::string_view written);

// Of the parameters of a tool, those that take text and nothing else: in elements what is written for them is text,
// whatever it looks like.
std::set<std::string> text_parameters(const nlohmann::ordered_json& parameters);

}  // namespace tandem::text
