// The trials of each family of designs: random numbers for a shape, and what a plain computation makes of them.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "npu/designs/attention.h"
#include "npu/designs/gemm.h"
#include "npu/designs/library.h"
#include "npu/designs/rows.h"

namespace tandem::npu {

constexpr int64_t kMaxTrialBytes = int64_t{4} << 30;

// The designs of rows.h.
enum class RowFamily : uint8_t { rms_norm, softmax, rope, add, silu_glu, gelu_glu, quantize };
constexpr float kTrialEps = 1e-6F;  // of the norm

// `shape` has as many numbers as the family's pattern: rows and columns, tokens, heads and their size, or a count.
Result<RowDesign> row_family_design(RowFamily family, const std::vector<int64_t>& shape, const std::string& array);
Result<Trial> row_trial(RowFamily family, const std::vector<int64_t>& shape, const std::string& array, uint32_t seed);

Result<Trial> gemm_trial(const GemmShape& shape, uint32_t seed);
Result<Trial> attention_trial(const AttentionShape& shape, uint32_t seed);  // causal, the chunk comes last

}  // namespace tandem::npu
