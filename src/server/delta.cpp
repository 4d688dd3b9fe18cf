#include "server/delta.h"

namespace tandem::server {

namespace {

void append_call(std::vector<ToolCallPiece>& calls, const ToolCallPiece& piece) {
    for (ToolCallPiece& call : calls) {
        if (call.index != piece.index) continue;
        call.arguments += piece.arguments;
        return;
    }
    calls.push_back(piece);
}

}  // namespace

std::string_view name(EndReason reason) {
    switch (reason) {
        case EndReason::stop:
            return "stop";
        case EndReason::length:
            return "length";
        case EndReason::tool_calls:
            return "tool_calls";
        case EndReason::cancelled:
            return "cancelled";
        case EndReason::deadline:
            return "deadline";
        case EndReason::error:
            return "error";
    }
    return "error";
}

void WholeAnswer::add(const Delta& delta) {
    WholeChoice& choice = choices_.at(static_cast<size_t>(delta.choice));
    choice.content += delta.content;
    choice.reasoning += delta.reasoning;
    for (const ToolCallPiece& piece : delta.tool_calls) append_call(choice.tool_calls, piece);
    choice.logprobs.insert(choice.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
    if (delta.end) choice.end = *delta.end;
}

engine::Usage total_usage(const std::vector<WholeChoice>& choices, int n) {
    engine::Usage total;
    for (size_t i = 0; i < choices.size(); ++i) {
        const engine::Usage& usage = choices[i].end.usage;
        if (i % static_cast<size_t>(n) == 0) {
            total.prompt_tokens += usage.prompt_tokens;
            total.cached_tokens += usage.cached_tokens;
        }
        total.generated_tokens += usage.generated_tokens;
        total.drafted_tokens += usage.drafted_tokens;
        total.accepted_tokens += usage.accepted_tokens;
    }
    return total;
}

}  // namespace tandem::server
