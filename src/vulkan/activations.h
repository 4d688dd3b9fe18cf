// Activations: how the rows that a matrix product reads lie in device memory (kernels/activations.glsl).
#pragma once

#include <cstdint>

#include "base/check.h"

namespace tandem::vulkan {

// f32  [rows][cols], for products in f32
// q8   int8 with one scale for each block of 32, for a single row by integer dot products:
//      uvec4 [rows][2][cols / 32], elements 0..15 and 16..31 of each block, then
//      vec2 [rows][cols / 32], the scale d and, as two f16, the sums of the two halves' int8 (exact: at most 16 * 127)
// f16  [rows][cols], then f32 [rows]: each row is divided by its scale, a power of two, so that no value overflows
// tiles  f16 and scales as in f16, but in the order in which the lanes of a subgroup hold the pieces of a matrix
// product
//      (kernels/lane_matrix.glsl): tiles of 16 rows, or one of 8; rows beyond the last are left as they are; cols is a
//      multiple of 128. Of each 128 inputs, the lane t of four has block t, and in step s of eight its inputs 4s, 4s +
//      2, 4s + 1, 4s + 3: uvec4 [row tiles][cols / 128][8 steps][8 rows][4 lanes], with the inputs of rows r and r + 8
//      in its halves, or, of 8 rows, uvec2
enum class ActivationFormat : uint8_t { f32, q8, f16, tiles };

// Of a tile.
inline uint32_t tile_rows(uint64_t rows) {
    return rows <= 8 ? 8 : 16;
}

inline constexpr uint32_t kMatrixInputs = 128;

inline uint64_t activation_bytes(ActivationFormat format, uint64_t rows, uint64_t cols) {
    switch (format) {
        case ActivationFormat::f32:
            return rows * cols * 4;
        case ActivationFormat::q8:
            return rows * (cols + cols / 32 * 8);
        case ActivationFormat::f16:
            return rows * (cols * 2 + 4);
        case ActivationFormat::tiles:
            return (rows + tile_rows(rows) - 1) / tile_rows(rows) * tile_rows(rows) * cols * 2 + rows * 4;
    }
    CHECK(false);
}

}  // namespace tandem::vulkan
