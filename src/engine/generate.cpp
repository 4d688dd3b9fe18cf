#include "engine/generate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "engine/stop_matcher.h"
#include "text/detokenizer.h"

namespace tandem::engine {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

bool ends_sequence(const text::Tokenizer& tokenizer, TokenId token) {
    const auto& stops = tokenizer.stop_tokens();
    return std::find(stops.begin(), stops.end(), token) != stops.end();
}

}  // namespace

double Generation::generate_rate() const {
    return tokens.size() > 1 && generate_seconds > 0 ? static_cast<double>(tokens.size() - 1) / generate_seconds : 0;
}

Result<Generation> generate(Session& session, const text::Tokenizer& tokenizer, const GenerateRequest& request) {
    Generation result;
    result.prompt_tokens = static_cast<int>(request.prompt.size());
    if (!request.prompt.empty()) result.cached_tokens = session.cached_tokens(request.prompt);

    text::Detokenizer detokenizer(tokenizer, {.continues_text = request.continues_text});
    StopMatcher matcher(request.stop);
    const auto deliver = [&](const std::string& text) {
        result.text += text;
        if (!text.empty() && request.on_text) request.on_text(text);
    };

    std::vector<TokenId> sequence = request.prompt;
    const auto begin = Clock::now();
    std::optional<Clock::time_point> first_token;
    for (;;) {
        const device::SamplingRow row{.params = &request.sampling, .history = sequence, .draw = result.tokens.size()};
        const std::optional<TokenId> next = TRY(session.advance(sequence, row, request.cancelled));
        if (!first_token) first_token = Clock::now();
        if (!next) {
            result.reason = FinishReason::cancelled;
            break;
        }
        if (!request.ignore_end && ends_sequence(tokenizer, *next)) break;
        sequence.push_back(*next);
        result.tokens.push_back(*next);
        deliver(matcher.push(detokenizer.push(*next)));
        if (matcher.stopped()) break;
        const bool enough = request.max_tokens > 0 && std::ssize(result.tokens) >= request.max_tokens;
        if (enough || std::ssize(sequence) > session.context()) {
            result.reason = FinishReason::length;
            break;
        }
    }
    deliver(matcher.push(detokenizer.finish()));
    deliver(matcher.finish());
    result.prompt_seconds = seconds_between(begin, *first_token);
    result.generate_seconds = seconds_between(*first_token, Clock::now());
    return result;
}

}  // namespace tandem::engine
