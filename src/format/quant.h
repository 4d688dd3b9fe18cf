// The quantized block types of GGUF, bit for bit, with reference encoding and decoding of rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace tandem::format {

// Every field named d, dmin or m is an f16. Elements of a block are e[0..n); "nibble i" below is one of 4 bits.

// e[i] = d * qs[i]
struct BlockQ8_0 {
    static constexpr int kElements = 32;
    uint16_t d;
    int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// e[i] = d * (q - 8); q of e[0..16) in the low nibbles of qs, of e[16..32) in the high ones
struct BlockQ4_0 {
    static constexpr int kElements = 32;
    uint16_t d;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// e[i] = d * q + m; nibbles as in q4_0
struct BlockQ4_1 {
    static constexpr int kElements = 32;
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// e[i] = d * (q - 16); low 4 bits as in q4_0, the fifth is bit i of qh (little-endian)
struct BlockQ5_0 {
    static constexpr int kElements = 32;
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// e[i] = d * q + m; bits as in q5_0
struct BlockQ5_1 {
    static constexpr int kElements = 32;
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// Eight sub-blocks of 32: e = d * scale * q - dmin * min. Four chunks of 64 elements have 32 bytes of qs each: the
// first sub-block of a chunk in the low nibbles, the second in the high ones. For `scales` see k_scale_min().
struct BlockQ4_K {
    static constexpr int kElements = 256;
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As q4_k; the fifth bit of element i of sub-block s is bit s of qh[i].
struct BlockQ5_K {
    static constexpr int kElements = 256;
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// Sixteen sub-blocks of 16: e = d * scales[s] * (q - 32). Each half of 128 elements has 64 bytes of ql, 32 of qh:
// element i = 32 * g + l (g of 0..4) has its low bits in ql[l + 32 * (g % 2)], the low nibble for g < 2, and its
// two high bits in qh[l] at bit 2 * g.
struct BlockQ6_K {
    static constexpr int kElements = 256;
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

// The 6-bit scale and minimum of sub-block `s` (0..8) of q4_k and q5_k. The first four of each are the low bits of
// bytes 0..4 and 4..8; the last four have their low nibbles in bytes 8..12 and their top bits above the first four.
struct KScaleMin {
    uint8_t scale;
    uint8_t min;
};
inline KScaleMin k_scale_min(const uint8_t* scales, int s) {
    if (s < 4) return {static_cast<uint8_t>(scales[s] & 63), static_cast<uint8_t>(scales[s + 4] & 63)};
    return {static_cast<uint8_t>((scales[s + 4] & 15) | ((scales[s - 4] >> 6) << 4)),
            static_cast<uint8_t>((scales[s + 4] >> 4) | ((scales[s] >> 6) << 4))};
}

// A row of `cols` elements, a multiple of the type's block. `in` and `out` need no alignment.
void decode_row(DType dtype, const std::byte* in, float* out, int64_t cols);

// Encodes every type but i32. f16 and bf16 round as IEEE 754 does. In the block types NaN becomes 0 and magnitudes
// beyond f16 (65504, infinity too) become that, so any input gives a valid block.
void encode_row(DType dtype, const float* in, std::byte* out, int64_t cols);

}  // namespace tandem::format
