// What the SIMD versions of linear_int8.cpp share: rows of x rounded to 8 bits, and the sizes of tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

inline constexpr int kTilePanels = 4;
inline constexpr int kTileElements =
    2048;  // a tile of 64 outputs takes 128 KiB, and its scales and minima 64 at most: it stays in the L2 cache
inline constexpr size_t kTileBytes =
    size_t{kTilePanels} * 16 * (kTileElements + 2 * (kTileElements / 16) * sizeof(float));

// Run r of a row: numbers q * scales[r]. Behind the last run there are zeros.
struct QuantizedRow {
    int8_t* q;
    float* scales;
    float* sums;           // scale times the sum of q
    int32_t* corrections;  // what takes the weights' offset off again: -offset times the sum of q
};

class QuantizedRows {
  public:
    static size_t size_bytes(int64_t rows, int64_t cols) { return static_cast<size_t>(rows) * stride(cols); }

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
    static size_t padded_runs(int64_t cols) { return static_cast<size_t>(cols) / 16 + 16; }

  private:
    static size_t runs_bytes(int64_t cols) { return (padded_runs(cols) * sizeof(float) + 63) / 64 * 64; }
    static size_t stride(int64_t cols) { return padded_elements(cols) + 3 * runs_bytes(cols); }

    std::byte* data_;
    int64_t cols_;
};

struct Int8Product {
    Input weight;
    QuantizedRows x;
    int64_t rows;
    const float* bias;  // may be null
    Output out;
};

// The code for one weight type on one SIMD target.
struct Int8Kernels {
    int tile_outputs;  // rows of weights in a tile
    void (*quantize)(const Input& x, bool many, const QuantizedRows& rows, RowRange range);
    void (*multiply_few)(const Int8Product& product, RowRange outputs);
    void (*multiply_many)(const Int8Product& product, std::byte* tile, RowRange tiles);
};

// Null where linear_int8.cpp has none for weights of this type.
const Int8Kernels* find_int8_kernels(DType weight);
inline bool int8_kernels_take(DType weight) {
    return find_int8_kernels(weight) != nullptr;
}

}  // namespace tandem::cpu::simd
