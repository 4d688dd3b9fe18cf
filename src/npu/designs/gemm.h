// gemm_i8: y = x w^T on the whole array, of int8 with a scale for each row of x and of w, summed in int32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/threads.h"
#include "npu/design.h"

namespace tandem::npu {

struct GemmShape {
    int64_t m = 0;  // rows of x
    int64_t k = 0;  // columns of x and of w
    int64_t n = 0;  // rows of w
    std::string array = "npu1";
    bool scaled = true;  // to f32; else y is the int32 sums
    bool bias = false;   // one float for each row of w is added to the scaled sums
};

// How a product is cut: core (column c, row r) computes blocks of tile_m x tile_n, those of its row share x and those
// of its column w. tile_k and tile_n do not depend on m, so weights are packed once for all m.
struct GemmLayout {
    std::string array;
    bool scaled = true;
    bool bias = false;
    int rows = 0;
    int columns = 0;
    int64_t tile_m = 0;  // 8, 16, 32 or 64
    int64_t tile_k = 0;  // a multiple of 8
    int64_t tile_n = 0;  // 16, 32 or 64
    int64_t m = 0;       // rounded up to rows * tile_m
    int64_t k = 0;       // rounded up to tile_k
    int64_t n = 0;       // rounded up to columns * tile_n

    int64_t blocks_m() const { return m / tile_m; }
    int64_t blocks_k() const { return k / tile_k; }
    int64_t blocks_n() const { return n / tile_n; }
    // Packed, the rows of a block are objects of tile_k columns each, and one with their scales (and biases).
    int64_t objects() const { return blocks_k() + (scaled ? 1 : 0); }
    int64_t x_bytes() const { return blocks_m() * objects() * tile_m * tile_k; }
    int64_t w_bytes() const { return blocks_n() * objects() * tile_n * tile_k; }
    int64_t y_bytes() const { return m * n * 4; }
};

Result<GemmLayout> gemm_layout(const GemmShape& shape);

// Arguments: x packed (x_bytes), w packed (w_bytes), y f32 or i32 [m][n] row after row with the m and n of
// the layout.
Result<Design> gemm_i8(const GemmLayout& layout);

struct PackedRows {
    std::span<const int8_t> values;  // [rows][columns]
    std::span<const float> scales;   // [rows]
    int64_t columns = 0;
    std::span<const float> bias = {};  // [rows], of w where the layout has one
};
// What is missing up to the layout's m, n and k becomes zero.
void pack_x(const GemmLayout& layout, const PackedRows& x, std::span<std::byte> packed);
void pack_w(const GemmLayout& layout, const PackedRows& w, std::span<std::byte> packed);

struct FloatRows {
    const float* values = nullptr;  // [rows][stride]
    int64_t rows = 0;
    int64_t columns = 0;
    int64_t stride = 0;
};
// Rounds each row to int8 by its largest magnitude / 127 (half to even) while packing it.
void quantize_x(const GemmLayout& layout, const FloatRows& x, ThreadPool& threads, std::span<std::byte> packed);

}  // namespace tandem::npu
