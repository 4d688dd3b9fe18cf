// What the SIMD versions of linear_int8.cpp share: rows of x rounded to 8 bits, and the sizes of tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

inline constexpr int kTilePanels = 4;
inline constexpr int kTileBlocks =
    64;  // a tile of 64 outputs takes 128 KiB and its scales 16: it stays in the L2 cache
inline constexpr size_t kTileBytes = size_t{kTilePanels} * 16 * kTileBlocks * (32 + sizeof(float));

// Block b of a row: 32 numbers q * scales[b].
struct QuantizedRow {
    int8_t* q;
    float* scales;
    int32_t* corrections;  // 1, 4 or 8 per block
};

class QuantizedRows {
  public:
    static size_t size_bytes(int64_t rows, int64_t cols) { return static_cast<size_t>(rows) * stride(cols); }

    QuantizedRows(std::byte* data, int64_t cols) : data_(data), cols_(cols) {}

    QuantizedRow row(int64_t i) const {
        std::byte* begin = data_ + static_cast<size_t>(i) * stride(cols_);
        std::byte* scales = begin + align(static_cast<size_t>(cols_) + kPadding);
        return {reinterpret_cast<int8_t*>(begin), reinterpret_cast<float*>(scales),
                reinterpret_cast<int32_t*>(scales + scale_bytes(cols_))};
    }

  private:
    static constexpr size_t kPadding = 64;  // a vector may read past the last block; what it reads is not used

    static size_t align(size_t bytes) { return (bytes + 63) / 64 * 64; }
    static size_t scale_bytes(int64_t cols) { return align(static_cast<size_t>(cols / 32) * sizeof(float) + kPadding); }
    static size_t stride(int64_t cols) {
        const size_t corrections = align(static_cast<size_t>(cols / 32) * 8 * sizeof(int32_t) + kPadding);
        return align(static_cast<size_t>(cols) + kPadding) + scale_bytes(cols) + corrections;
    }

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

}  // namespace tandem::cpu::simd
