// Planes: how weights lie on the device, repacked from the file's blocks so that kernels read 16 bytes at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace tandem::vulkan {

// The planes of a matrix, each in the order of its blocks of 32 elements, row after row; but in tiles where is_tiled():
// of each 16 rows, after another for each 4 blocks of a row, first those of rows 0 to 7, then those of 8 to 15, so that
// a subgroup reads 512 bytes in one go. What belongs to 8 blocks is never in tiles.
//   quants  plain types: the elements. Q8_0: 32 bytes a block. The others: 16 bytes, the low 4 bits of elements
//           0..15 in the low nibbles and of 16..31 in the high ones (for K types too, unlike in the file)
//   scales  Q8_0, Q4_0, Q5_0: f16 d. Q4_1, Q5_1: f16 d and m. Q4_K, Q5_K: for each 8 blocks 16 bytes, d, dmin and the
//           12 bytes of 6-bit scales. Q6_K: two int8
//   high    in the byte that belongs to the element's in four words of four elements: Q5_0, Q5_1, Q5_K: u32, bit w for
//   word
//           w of the low nibbles and 4 + w for those of the high ones. Q6_K: 2 x u32, for the low nibbles and the high
//           ones, bits 2w and 2w + 1
//   deltas  Q6_K: f16 d for each 8 blocks
struct Planes {
    enum : size_t { quants, scales, high, deltas, count };

    std::array<std::vector<std::byte>, count> bytes;
};

inline constexpr int64_t kTiledRows = 16;
inline constexpr int64_t kTiledCols = 128;

// Whether the matrix is kept in tiles.
bool is_tiled(DType dtype, int64_t rows, int64_t cols);

// Bytes of each plane of `elements` elements.
std::array<uint64_t, Planes::count> plane_bytes(DType dtype, int64_t elements);

// Repacks whole blocks: elements [first, first + elements) of a tensor's data into the same elements of the planes.
// Where rows of `tiled_cols` are to be tiled, these are whole tiles; 0: not.
struct PlaneTargets {
    std::array<std::byte*, Planes::count> begin{};
};
void repack(DType dtype, std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols);

}  // namespace tandem::vulkan
