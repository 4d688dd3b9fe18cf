// Sampling: how the next token is drawn from a row of logits, and the random numbers it is drawn with.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tandem::device {

// Applied in this order: penalties, logit bias, SamplingRow::allowed, temperature, top-k, top-p, min-p, then the draw.
// The defaults change nothing, and temperature 0 takes the largest logit.
struct SamplingParams {
    float temperature = 0.0F;
    int top_k = 0;                    // keep the k most likely; 0: all
    float top_p = 1.0F;               // keep the most likely until their probabilities reach p
    float min_p = 0.0F;               // keep those at least min_p times as likely as the most likely
    float repetition_penalty = 1.0F;  // divides positive and multiplies negative logits of tokens seen
    float presence_penalty = 0.0F;    // subtracted from logits of tokens seen
    float frequency_penalty = 0.0F;   // subtracted once for each time a token was seen
    uint64_t seed = 0;
    std::vector<std::pair<int32_t, float>> logit_bias = {};  // (token, what is added to its logit)

    // Whether the tokens so far matter.
    bool penalizes() const {
        return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F;
    }
};

// Words of SamplingRow::allowed for so many tokens.
inline size_t mask_words(int64_t tokens) {
    return static_cast<size_t>((tokens + 31) / 32);
}

// One row's sampling in a step.
struct SamplingRow {
    const SamplingParams* params = nullptr;
    std::span<const int32_t> history;  // the tokens that penalties count
    uint64_t draw = 0;                 // number of this draw: same seed and draw, same random numbers
    // A bit for each token, that of token 0 the lowest of the first word: those that may be drawn. Empty: every token.
    std::span<const uint32_t> allowed = {};

    bool allows(int32_t token) const {
        const auto id = static_cast<uint32_t>(token);
        return allowed.empty() || ((allowed[id / 32] >> (id % 32)) & 1U) != 0;
    }
};

// The random number in (0, 1) of one candidate of one draw. It depends on nothing but its arguments, so every
// device and any order of evaluation gives the same. The token drawn is the argmax of logit / temperature +
// gumbel(uniform), which has exactly the softmax distribution and needs neither sort nor running sum.
float sampling_uniform(uint64_t seed, uint64_t draw, int32_t token);

}  // namespace tandem::device
