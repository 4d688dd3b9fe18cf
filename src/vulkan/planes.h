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
// a subgroup reads 512 bytes in one go. Of quants of more than 16 bytes a block, the first 16 of such 32 blocks lie
// together, then the next ones. What belongs to 8 blocks is never in tiles.
//   quants  plain types: the elements. Bytes: 32 a block. Nibbles: 16 bytes, the low 4 bits of elements 0..15 in the
//   low
//           nibbles and of 16..31 in the high ones (for K types too, unlike in the file). Two bits: in word i / 16,
//           byte i % 4 at bit 2 * (i % 16 / 4). Points of code books: their low 8 bits; iq2_s has the signs after them,
//           iq2_xs and iq2_xxs words as in the file
//   scales  f16 d; or d and m; or what d, of `deltas`, is multiplied with: a byte of scale and one of minimum (Q4_K,
//           Q5_K), int8 (Q3_K, Q6_K: two; IQ4_XS), the file's bytes (Q2_K: two, iq2_xs), nibbles (iq1_m). MXFP4, NVFP4:
//           floats of a byte. iq3_s and iq2_s: the high bits of points, then scales
//   high    bits beyond those of quants: element i has bit i / 4 of byte i % 4. Q6_K: two u32, for the low nibbles and
//   the
//           high ones, bits 2w and 2w + 1 for word w. iq3: signs; iq1: high bits and shifts
//   deltas  for each 8 blocks f16 d, or d and dmin
struct Planes {
    enum : size_t { quants, scales, high, deltas, count, book = count };  // book: see code_book()

    std::array<std::vector<std::byte>, count> bytes;
};

inline constexpr int64_t kTiledRows = 16;
inline constexpr int64_t kTiledCols = 128;

// Whether the matrix is kept in tiles.
bool is_tiled(DType dtype, int64_t rows, int64_t cols);

// Bytes of each plane of `elements` elements, by the rows of base/dtypes.inc.
std::array<uint64_t, Planes::count> plane_bytes(DType dtype, int64_t elements);

// Whether what stands in `quants` are places in a table or a code book.
bool is_looked_up(DType dtype);

// The code book of a type that is made of points of one, as kernels read it: bytes of levels, four of a point in a
// word; empty for others.
std::vector<uint32_t> code_book(DType dtype);

// Repacks whole blocks: elements [first, first + elements) of a tensor's data into the same elements of the planes.
// Where rows of `tiled_cols` are to be tiled, these are whole tiles; 0: not.
struct PlaneTargets {
    std::array<std::byte*, Planes::count> begin{};
};
void repack(DType dtype, std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols);

}  // namespace tandem::vulkan
