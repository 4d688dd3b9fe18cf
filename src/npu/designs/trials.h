// The trials of each family of designs: random numbers for a shape, and what a plain computation makes of them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "npu/designs/attention.h"
#include "npu/designs/gemm.h"
#include "npu/designs/library.h"

namespace tandem::npu {

constexpr int64_t kMaxTrialBytes = int64_t{4} << 30;

Result<Trial> gemm_trial(const GemmShape& shape, uint32_t seed);
Result<Trial> attention_trial(const AttentionShape& shape, uint32_t seed);  // causal, the chunk comes last

}  // namespace tandem::npu
