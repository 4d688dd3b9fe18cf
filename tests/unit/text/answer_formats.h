// Formats of answers, told from templates that have nothing but their marks.
#pragma once

#include "text/answer_format.h"

namespace tandem::text {

inline const AnswerFormat kQwen = answer_format("{{tools}} <think>\n</think> <tool_call>\n</tool_call>");
inline const AnswerFormat kMistral = answer_format("{{tools}} [TOOL_CALLS]");
inline const AnswerFormat kNamedMistral = answer_format("{{tools}} [TOOL_CALLS]name[ARGS]");
inline const AnswerFormat kLlama = answer_format(R"({{tools}} {"name": f, "parameters": p})");
inline const AnswerFormat kGemma4 =
    answer_format("{{tools}} <|channel>thought\n<channel|> <|tool_call>call:f{}<tool_call|>");
inline const AnswerFormat kHarmony = answer_format("{{tools}} <|start|>assistant<|channel|>final<|message|>");
inline const AnswerFormat kGemma = answer_format("<start_of_turn>{{ role }}");
inline const AnswerFormat kGlm =
    answer_format("{{tools}} <think></think> <tool_call>f\n<arg_key>k</arg_key>\n<arg_value>v</arg_value></tool_call>");
inline const AnswerFormat kSpelled = answer_format("{{tools}} <think></think> <tool_call><function=f></tool_call>");
inline const AnswerFormat kBarred = answer_format("{{tools}} <|tool_call|>");

}  // namespace tandem::text
