// Products of weights with rows of x: what linear.cpp cuts for threads, and linear_int8.cpp and linear_f32.cpp
// multiply.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

inline constexpr int64_t kFewRows =
    4;  // of x, that are multiplied while weights are read; for more, these are unpacked

// Run r of a row: numbers q * scales[r]. Behind the last run there are zeros. For kernels that want it so, the scale of
// a run is there for each of some lanes, and its correction is in the first of as many.
struct QuantizedRow {
    static constexpr int64_t kBehind = 16;

    int8_t* q;
    float* scales;
    float* sums;           // scale times the sum of q
    int32_t* corrections;  // what takes the weights' offset off again: -offset times the sum of q

    void clear_behind(int64_t used) const {
        std::fill_n(scales + used, kBehind, 0.0F);
        std::fill_n(sums + used, kBehind, 0.0F);
        std::fill_n(corrections + used, kBehind, 0);
    }
};

class QuantizedRows {
  public:
    static size_t size_bytes(int64_t rows, int64_t cols) { return static_cast<size_t>(rows) * stride(cols); }

    QuantizedRows() = default;
    QuantizedRows(std::byte* data, int64_t cols) : data_(data), cols_(cols) {}

    QuantizedRow row(int64_t i) const {
        std::byte* begin = data_ + static_cast<size_t>(i) * stride(cols_);
        std::byte* runs = begin + padded_elements(cols_);
        return {reinterpret_cast<int8_t*>(begin), reinterpret_cast<float*>(runs),
                reinterpret_cast<float*>(runs + runs_bytes(cols_)),
                reinterpret_cast<int32_t*>(runs + 2 * runs_bytes(cols_))};
    }

    // Elements are there for whole vectors, or groups of four blocks, and one vector more.
    static size_t padded_elements(int64_t cols) { return (static_cast<size_t>(cols) + 127) / 128 * 128 + 64; }
    // Runs of 16, or four lanes for each run of 32.
    static size_t padded_runs(int64_t cols) { return static_cast<size_t>(cols) / 8 + QuantizedRow::kBehind; }

  private:
    static size_t runs_bytes(int64_t cols) { return (padded_runs(cols) * sizeof(float) + 63) / 64 * 64; }
    static size_t stride(int64_t cols) { return padded_elements(cols) + 3 * runs_bytes(cols); }

    std::byte* data_ = nullptr;
    int64_t cols_ = 0;
};

// The weights may be some rows of a larger matrix.
struct Product {
    Input weight;
    Input x;
    QuantizedRows rounded = {};   // x, for kernels that round it
    const float* bias = nullptr;  // may be null
    Output out;
};

// The code for one weight type on one SIMD target. Outputs are rows of weights.
struct LinearKernels {
    int64_t tile_outputs;  // that multiply_many takes at once
    size_t tile_bytes;     // of memory that it needs for them
    // Null for kernels that take x as it is.
    void (*quantize)(const Input& x, bool many, const QuantizedRows& rows, RowRange range);
    void (*multiply_few)(const Product& product, RowRange outputs);  // up to kFewRows rows of x; may be null
    void (*multiply_many)(const Product& product, std::byte* tile, RowRange outputs);
};

// For the SIMD target that is used now; null for types that are no weights.
const LinearKernels* find_kernels(DType weight);
// Of one file; null for types that the other has.
const LinearKernels* find_int8_kernels(DType weight);
const LinearKernels* find_f32_kernels(DType weight);

}  // namespace tandem::cpu::simd
