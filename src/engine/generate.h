// generate: one answer of an Engine, from prompt tokens to text, waited for.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace tandem::engine {

struct GenerateOptions {
    std::function<void(std::string_view piece)> on_text;  // called as text becomes certain; may be empty
    const std::atomic<bool>* cancelled = nullptr;         // set by somebody else to end the answer early
};

struct Generation {
    std::vector<TokenId> tokens;  // without the end-of-sequence token
    std::string text;
    FinishReason reason = FinishReason::stop;
    int prompt_tokens = 0;
    int cached_tokens = 0;    // of the prompt, already in the engine's cache
    int drafted_tokens = 0;   // guessed ahead
    int accepted_tokens = 0;  // of them, right
    double prompt_seconds = 0;
    double generate_seconds = 0;

    double prompt_rate() const { return prompt_seconds > 0 ? (prompt_tokens - cached_tokens) / prompt_seconds : 0; }
    // The first token belongs to the prompt's time.
    double generate_rate() const;
};

// Submits the request, which has one choice and whose on_event is not used, and steps the engine until it has ended.
Result<Generation> generate(Engine& engine, Request request, const GenerateOptions& options = {});

}  // namespace tandem::engine
