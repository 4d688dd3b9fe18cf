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
enum class ActivationFormat : uint8_t { f32, q8, f16 };

inline uint64_t activation_bytes(ActivationFormat format, uint64_t rows, uint64_t cols) {
    switch (format) {
        case ActivationFormat::f32:
            return rows * cols * 4;
        case ActivationFormat::q8:
            return rows * (cols + cols / 32 * 8);
        case ActivationFormat::f16:
            return rows * (cols * 2 + 4);
    }
    CHECK(false);
}

}  // namespace tandem::vulkan
