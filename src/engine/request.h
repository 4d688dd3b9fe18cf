// Request: what somebody wants of the Engine, and the Events by which the answer comes back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/sampling.h"
#include "engine/scheduler.h"
#include "text/grammar/token_masks.h"
#include "text/tokenizer.h"

namespace tandem::engine {

using RequestId = uint64_t;

enum class FinishReason : uint8_t {
    stop,       // the model ended it, or a stop string or token
    length,     // max_tokens, or the context is full
    cancelled,  //
    deadline,   //
    error,      // the device failed
};

enum class Pooling : uint8_t { mean, last };

// Of a prompt, and of the answer to it.
struct Usage {
    int prompt_tokens = 0;
    int cached_tokens = 0;     // of the prompt, found in the cache
    int generated_tokens = 0;  // without the end-of-sequence token
    int drafted_tokens = 0;    // guessed ahead
    int accepted_tokens = 0;   // of them, right
};

// In seconds.
struct Timings {
    double queue = 0;        // until its first row ran
    double prefill = 0;      // from then to the first token
    double decode = 0;       // from then to the end
    double first_token = 0;  // from submission to the first token, or to the end if there is none
};

struct TokenProbability {
    TokenId token = 0;
    float logprob = 0;
};

// Of the model's own distribution: before penalties, bias, temperature and the rest.
struct TokenLogprobs {
    TokenProbability chosen;
    std::vector<TokenProbability> top;  // likeliest first
};

struct Finish {
    FinishReason reason = FinishReason::stop;
    std::string error;  // of FinishReason::error
    std::string stop;   // the string of Request::stop that ended it, if one did
    Usage usage;
    Timings timing;
    std::vector<float> embedding;  // of Request::embed
};

// What is new. Spans and text are valid during the call.
struct Event {
    RequestId id = 0;
    int choice = 0;                           // of Request::n
    std::string_view text;                    // that is certain: it may lag behind the tokens
    std::span<const TokenId> tokens;          //
    std::span<const TokenLogprobs> logprobs;  // one per token, if they were asked for
    const Finish* finish = nullptr;           // the last event of the choice
};

struct Request {
    std::vector<TokenId> prompt;
    device::SamplingParams sampling;                  // choice i of n draws with seed + i
    int max_tokens = 0;                               // 0: until the context is full
    int min_tokens = 0;                               // before a token may end the answer
    int n = 1;                                        // answers to the same prompt
    std::vector<std::string> stop;                    // text that ends the answer and is not part of it
    std::vector<TokenId> stop_tokens;                 // beside the model's own
    bool ignore_end = false;                          // go on past the model's end-of-sequence tokens
    bool continues_text = false;                      // of the prompt: a space at the beginning counts
    bool echo = false;                                // the answer begins with the prompt
    bool prompt_only = false;                         // nothing is written: with `echo`, the prompt and its tokens
    std::vector<TokenId> shown;                       // control tokens that are part of the text here
    std::shared_ptr<const text::TokenMasks> grammar;  // that the answer is held to (Engine::masks_for)
    std::optional<int> logprobs;                      // of every token, beside this many of the likeliest
    std::optional<Pooling> embed;                     // no answer but the prompt's embedding, of length 1
    bool shifts_context = false;                      // a full context loses its older half and goes on
    int keep = 0;                                     // tokens at its beginning that a shift leaves
    std::string owner;                                // each has a fair share of what runs
    int priority = 0;                                 // larger is more important, among those of its owner
    std::optional<TimePoint> deadline;                //
    std::string salt;                                 // only requests with the same share cached prompts
    bool speculates = true;                           // where the engine can
    std::function<void(const Event&)> on_event;       // called by the thread that steps the engine
};

}  // namespace tandem::engine
