// generate: from prompt tokens to text, piece by piece, with the reason it ended and how long it took.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/sampling.h"
#include "engine/session.h"
#include "text/tokenizer.h"

namespace tandem::engine {

struct GenerateRequest {
    std::vector<TokenId> prompt;
    device::SamplingParams sampling;
    int max_tokens = 0;                                   // 0: until the context is full
    std::vector<std::string> stop;                        // text that ends the answer and is not part of it
    bool ignore_end = false;                              // go on past end-of-sequence tokens
    bool continues_text = false;                          // of the prompt: a space at the beginning counts
    std::function<void(std::string_view piece)> on_text;  // called as text becomes certain; may be empty
    const std::atomic<bool>* cancelled = nullptr;         // set by somebody else to end the answer early
};

enum class FinishReason : uint8_t { stop, length, cancelled };

struct Generation {
    std::vector<TokenId> tokens;  // without the end-of-sequence token
    std::string text;
    FinishReason reason = FinishReason::stop;
    int prompt_tokens = 0;
    int cached_tokens = 0;  // of the prompt, already in the session's cache
    double prompt_seconds = 0;
    double generate_seconds = 0;

    double prompt_rate() const { return prompt_seconds > 0 ? (prompt_tokens - cached_tokens) / prompt_seconds : 0; }
    // The first token belongs to the prompt's time.
    double generate_rate() const;
};

// How many tokens a device that needs `seconds_each` for one should draw before it reports (Session::advance_by).
int tokens_at_once(double seconds_each);

Result<Generation> generate(Session& session, const text::Tokenizer& tokenizer, const GenerateRequest& request);

}  // namespace tandem::engine
