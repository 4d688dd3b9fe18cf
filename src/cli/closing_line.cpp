#include "cli/closing_line.h"

namespace tandem::cli {

std::string_view name(engine::FinishReason reason) {
    switch (reason) {
        case engine::FinishReason::stop:
            return "stop";
        case engine::FinishReason::length:
            return "length";
        case engine::FinishReason::cancelled:
            return "cancelled";
        case engine::FinishReason::deadline:
            return "deadline";
        case engine::FinishReason::error:
            return "error";
    }
    return "unknown";
}

std::string closing_line(const Chat& chat, const Answer& answer) {
    const engine::Generation& generation = answer.generation;
    const auto speed = [](double rate) { return rate > 0 ? fmt::format(", {:.1f} tokens/s", rate) : std::string(); };
    const std::string cached =
        generation.cached_tokens > 0 ? fmt::format(" ({} cached)", generation.cached_tokens) : std::string();
    const std::string guessed =
        generation.drafted_tokens > 0
            ? fmt::format(", {} of {} guesses right", generation.accepted_tokens, generation.drafted_tokens)
            : std::string();
    std::string ending;
    if (generation.reason == engine::FinishReason::cancelled) ending = "; stopped";
    if (generation.reason == engine::FinishReason::length) ending = "; cut at its greatest length";
    const int used = generation.prompt_tokens + static_cast<int>(generation.tokens.size());
    return fmt::format("[prompt {} tokens{}{}; answer {} tokens{}{}; context {} % full; {}{}]",
                       generation.prompt_tokens, cached, speed(generation.prompt_rate()), generation.tokens.size(),
                       speed(generation.generate_rate()), guessed, 100 * used / chat.context(), chat.device().name,
                       ending);
}

}  // namespace tandem::cli
