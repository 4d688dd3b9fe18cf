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

int tokens_at_once(double seconds_each) {
    // No reader and no Ctrl-C notices so short a moment.
    constexpr double kMomentSeconds = 0.03;
    constexpr double kMostTokens = 16;
    return static_cast<int>(std::clamp(kMomentSeconds / std::max(seconds_each, 1e-9), 1.0, kMostTokens));
}

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
    // Takes the token into the text; false when it is the last, or past it.
    const auto take = [&](TokenId token) {
        if (!request.ignore_end && ends_sequence(tokenizer, token)) return false;
        sequence.push_back(token);
        result.tokens.push_back(token);
        deliver(matcher.push(detokenizer.push(token)));
        if (matcher.stopped()) return false;
        const bool enough = request.max_tokens > 0 && std::ssize(result.tokens) >= request.max_tokens;
        if (enough || std::ssize(sequence) > session.context()) result.reason = FinishReason::length;
        return result.reason != FinishReason::length;
    };

    const auto begin = Clock::now();
    std::optional<Clock::time_point> first_token;
    int at_once = 1;
    for (bool more = true; more;) {
        const device::SamplingRow row{.params = &request.sampling, .history = sequence, .draw = result.tokens.size()};
        const auto asked = Clock::now();
        const std::vector<TokenId> drawn = TRY(session.advance_by(at_once, sequence, row, request.cancelled));
        if (!first_token) {
            first_token = Clock::now();
        } else if (!drawn.empty()) {
            at_once = tokens_at_once(seconds_between(asked, Clock::now()) / static_cast<double>(drawn.size()));
        }
        if (drawn.empty()) {
            result.reason = FinishReason::cancelled;
            break;
        }
        for (size_t i = 0; more && i < drawn.size(); ++i) more = take(drawn[i]);
    }
    deliver(matcher.push(detokenizer.finish()));
    deliver(matcher.finish());
    result.prompt_seconds = seconds_between(begin, *first_token);
    result.generate_seconds = seconds_between(*first_token, Clock::now());
    return result;
}

}  // namespace tandem::engine
