// gemm_i8: y = x w^T + bias on the whole array, of int8 with a scale for each row of x and of w, summed in int32. One
// design for all products: only the transfers differ, and the counts that come with the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/threads.h"
#include "npu/design.h"
#include "npu/estimate.h"
#include "npu/kernels/gemm_header.h"

namespace tandem::npu {

struct GemmShape {
    int64_t m = 0;  // rows of x
    int64_t k = 0;  // columns of x and of w
    int64_t n = 0;  // rows of w
    std::string array = "npu1";
};

// How a product is cut: core (column c, row r) computes blocks of kGemmRows x kGemmColumns; those of its row share x
// and those of its column w. How w is packed does not depend on m.
struct GemmLayout {
    std::string array;
    int rows = 0;  // of cores
    int columns = 0;
    int tile_rows = 0;  // of x and y: as the cores multiply, 4 or 8
    int64_t m = 0;      // rounded up to rows * kGemmRows
    int64_t k = 0;      // to kGemmInner
    int64_t n = 0;      // to columns * kGemmColumns

    int64_t blocks_m() const { return m / kGemmRows; }
    int64_t blocks_k() const { return k / kGemmInner; }
    int64_t blocks_n() const { return n / kGemmColumns; }
    // Packed, a block is an object with its header and scales, and objects of kGemmInner columns each.
    int64_t objects() const { return 1 + blocks_k(); }
    int64_t x_bytes() const { return blocks_m() * objects() * kGemmRows * kGemmInner; }
    int64_t w_bytes() const { return blocks_n() * objects() * kGemmColumns * kGemmInner; }
    int64_t y_bytes() const { return m * n * 4; }
};

Result<GemmLayout> gemm_layout(const GemmShape& shape);

// Arguments: x packed (x_bytes), w packed (w_bytes), y f32 [m][n] row after row with the m and n of the layout.
Result<Design> gemm_i8(const GemmLayout& layout);

// For foresee(): the first objects of blocks, and what cores remember of them, where x has so many rows (as the busiest
// cores see it).
std::vector<Sample> gemm_samples(const GemmLayout& layout, int64_t rows);

// Of a block of kGemmRows cores multiply as many rows as are there, in steps of 16.
int32_t gemm_rows_of_block(int64_t rows);

struct PackedRows {
    std::span<const int8_t> values;  // [rows][columns]
    std::span<const float> scales;   // [rows]
    int64_t columns = 0;
    std::span<const float> bias = {};  // [rows], of w; none: zeros
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
