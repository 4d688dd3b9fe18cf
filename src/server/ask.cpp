#include "server/ask.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace tandem::server {

namespace {

Reply<Ok> at_most(std::string_view field, int64_t value, int64_t most) {
    if (value <= most) return Ok{};
    return bad_request(std::string(field), "{}: {} is more than the {} this server takes", field, value, most);
}

Reply<Ok> within(std::string_view field, float value, float least, float most) {
    if (value >= least && value <= most) return Ok{};  // false for what is no number, too
    return bad_request(std::string(field), "{} is {}: it must be between {} and {}", field, value, least, most);
}

Reply<Ok> check_sampling(const device::SamplingParams& sampling, const AskLimits& limits) {
    TRY(within("temperature", sampling.temperature, 0.0F, 100.0F));
    TRY(within("top_p", sampling.top_p, 0.0F, 1.0F));
    TRY(within("min_p", sampling.min_p, 0.0F, 1.0F));
    TRY(within("repetition_penalty", sampling.repetition_penalty, 0.01F, 100.0F));
    TRY(within("presence_penalty", sampling.presence_penalty, -100.0F, 100.0F));
    TRY(within("frequency_penalty", sampling.frequency_penalty, -100.0F, 100.0F));
    if (sampling.top_k < 0) return bad_request("top_k", "top_k is {}: it must not be negative", sampling.top_k);
    TRY(at_most("logit_bias", static_cast<int64_t>(sampling.logit_bias.size()), limits.logit_bias));
    for (const auto& bias : sampling.logit_bias) TRY(within("logit_bias", bias.second, -100.0F, 100.0F));
    return Ok{};
}

Reply<Ok> check_stop(const std::vector<std::string>& stop, const AskLimits& limits) {
    TRY(at_most("stop", static_cast<int64_t>(stop.size()), limits.stop));
    for (const std::string& text : stop) {
        if (text.empty()) return bad_request("stop", "stop: an empty string would end every answer at once");
        if (text.size() > static_cast<size_t>(limits.stop_bytes)) {
            return bad_request("stop", "stop: a string of {} bytes; at most {}", text.size(), limits.stop_bytes);
        }
    }
    return Ok{};
}

bool has_tool(const Json& tools, const std::string& name) {
    return std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
        const auto function = tool.find("function");
        return function != tool.end() && function->value("name", "") == name;
    });
}

Reply<Ok> check_tools(const Ask& ask, const AskLimits& limits) {
    TRY(at_most("tools", static_cast<int64_t>(ask.tools.size()), limits.tools));
    const bool has_tools = !ask.tools.empty();
    if (has_tools) TRY(at_most("tools", static_cast<int64_t>(ask.tools.dump().size()), limits.schema_bytes));
    if (!has_tools && ask.tool_choice == ToolChoice::required) {
        return bad_request("tool_choice", "tool_choice: a call is required, but there are no tools");
    }
    if (ask.tool_choice == ToolChoice::named && !(has_tools && has_tool(ask.tools, ask.tool_name))) {
        return bad_request("tool_choice", "tool_choice: there is no tool named '{}'", ask.tool_name);
    }
    return Ok{};
}

}  // namespace

Reply<Ok> check_token_ids(std::span<const text::TokenId> ids, int vocab, std::string_view field) {
    for (const text::TokenId id : ids) {
        if (id < 0 || id >= vocab) {
            return bad_request(std::string(field), "{}: token id {} is not in the model's vocabulary of {}", field, id,
                               vocab);
        }
    }
    return Ok{};
}

Reply<Ok> check(const Ask& ask, const AskLimits& limits) {
    TRY(check_sampling(ask.sampling, limits));
    TRY(check_stop(ask.stop, limits));
    TRY(check_tools(ask, limits));
    if (ask.n < 1) return bad_request("n", "n is {}: it must be at least 1", ask.n);
    TRY(at_most("n", ask.n, limits.n));
    if (ask.max_tokens < 0)
        return bad_request("max_tokens", "max_tokens is {}: it must not be negative", ask.max_tokens);
    if (ask.logprobs && *ask.logprobs < 0) return bad_request("logprobs", "logprobs must not be negative");
    TRY(at_most("logprobs", ask.logprobs.value_or(0), limits.logprobs));
    if (ask.min_tokens < 0)
        return bad_request("min_tokens", "min_tokens is {}: it must not be negative", ask.min_tokens);
    if (ask.max_tokens > 0 && ask.min_tokens > ask.max_tokens)
        return bad_request("min_tokens", "min_tokens is {}: that is more than max_tokens, {}", ask.min_tokens,
                           ask.max_tokens);
    TRY(at_most("stop_token_ids", static_cast<int64_t>(ask.stop_tokens.size()), limits.stop));
    TRY(at_most("messages", static_cast<int64_t>(ask.messages.size()), limits.messages));
    TRY(at_most("prompt", static_cast<int64_t>(ask.prompts.size()), limits.prompts));
    TRY(at_most("response_format", static_cast<int64_t>(ask.format.source.size()), limits.schema_bytes));
    if (ask.dimensions < 0) return bad_request("dimensions", "dimensions is {}: it must be positive", ask.dimensions);
    return Ok{};
}

}  // namespace tandem::server
