// Drawing a token from one row of logits, as device/sampling.h defines it.
#pragma once

#include <cstdint>
#include <span>

#include "device/sampling.h"

namespace tandem::cpu {

// The specification, which sorts the whole vocabulary. Any logits are allowed: NaN counts as minus infinity, and
// tokens in `history` or the bias that the row does not have are ignored.
int32_t sample_row(std::span<const float> logits, const device::SamplingRow& row);

// A step of it that a faster sampler shares: penalties, bias and what is allowed, in place. `counts` has the size of
// `logits`.
void adjust_logits(std::span<float> logits, const device::SamplingRow& row, std::span<int32_t> counts);

// What is drawn when no logit is above minus infinity: the first token that may be.
int32_t first_allowed(const device::SamplingRow& row);

// What is added to a candidate's logit / temperature before the largest is taken.
float gumbel_noise(const device::SamplingRow& row, int32_t token);

}  // namespace tandem::cpu
