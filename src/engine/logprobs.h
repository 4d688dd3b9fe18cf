// Log-probabilities of tokens, from a row of logits.
#pragma once

#include <span>

#include "engine/request.h"

namespace tandem::engine {

// Of `token` and of the `top` likeliest, the lower id first among equals.
TokenLogprobs log_probabilities(std::span<const float> logits, TokenId token, int top);

}  // namespace tandem::engine
