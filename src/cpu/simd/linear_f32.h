// What the SIMD versions of linear_f32.cpp share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

inline constexpr int64_t kTileOutputs = 32;
inline constexpr int64_t kTileCols = 1024;  // a tile takes 128 KiB; six rows of x of that length stay in the L1 cache
inline constexpr int64_t kTileStride =
    kTileCols + 16;  // rows 4 KiB apart would compete for the same lines of the cache
inline constexpr size_t kTileFloats = kTileOutputs * kTileStride;

struct F32Product {
    Input weight;
    Input x;
    const float* bias;  // may be null
    Output out;
};

// The code of the SIMD target that is in use.
struct F32Kernels {
    // All rows of x with the rows `outputs` of the weights, at most kTileOutputs; `tile` has kTileFloats.
    void (*multiply_tile)(const F32Product& product, float* tile, RowRange outputs);
    // Up to kFewRows rows of x, for weights that are no blocks.
    void (*multiply_few)(const F32Product& product, RowRange outputs);
};
F32Kernels f32_kernels();

}  // namespace tandem::cpu::simd
