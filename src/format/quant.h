// The quantized block types of GGUF, bit for bit, with reference encoding and decoding of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
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

// Sixteen sub-blocks of 16: e = d * scale * q - dmin * min, with 4 bits of scales[s] each, the scale in the low ones.
// Each half of 128 elements has 32 bytes of qs: q of element 32 * g + l is bits 2 * g and 2 * g + 1 of qs[l].
struct BlockQ2_K {
    static constexpr int kElements = 256;
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

// Sixteen sub-blocks of 16: e = d * (scale - 32) * (q - 4), scale from q3_k_scale(). The low two bits of q as in q2_k;
// the third of element 32 * g + l (g of 0..8) is bit g of hmask[l].
struct BlockQ3_K {
    static constexpr int kElements = 256;
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

// e[i] = d * kIq4Values[q]; nibbles as in q4_0
struct BlockIQ4_NL {
    static constexpr int kElements = 32;
    uint16_t d;
    uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// Eight sub-blocks of 32, each with 16 bytes of qs as in iq4_nl: e = d * (scale - 32) * kIq4Values[q]. The low four
// bits of the scale are nibble s of scales_l, the high two bits 2 * s and 2 * s + 1 of scales_h.
struct BlockIQ4_XS {
    static constexpr int kElements = 256;
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// e[i] = 2^(e - 128) * kFp4Values[q]; nibbles as in q4_0
struct BlockMXFP4 {
    static constexpr int kElements = 32;
    uint8_t e;
    uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

// Four sub-blocks of 16: e = ue4m3_to_f32(d[s]) / 2 * kFp4Values[q]; each has 8 bytes of qs, its first 8 elements in
// the low nibbles. A factor for the whole tensor is in a tensor of its own.
struct BlockNVFP4 {
    static constexpr int kElements = 64;
    uint8_t d[4];
    uint8_t qs[32];
};
static_assert(sizeof(BlockNVFP4) == 36);

// The types below are made of points of code books (format/codebooks.h): four elements each in iq3, eight in iq2 and
// iq1. A sign bit that is set makes its element negative; where signs take 7 bits, even_signs() has the eighth.

// Eight sub-blocks of 32: e = d * (1 + 2 * scale) * point; scale: nibble s of `scales`. Point k (of 64) is qs[k] with
// bit k of qh above; its signs are nibble k of `signs`.
struct BlockIQ3_S {
    static constexpr int kElements = 256;
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
};
static_assert(sizeof(BlockIQ3_S) == 110);

// Eight sub-blocks of 32: e = d * (1 + 2 * scale) / 4 * point, points qs[8 * s + 0..8). signs_scales has a u32 for each
// sub-block: four times 7 bits of signs, the scale in the top four.
struct BlockIQ3_XXS {
    static constexpr int kElements = 256;
    uint16_t d;
    uint8_t qs[64];
    uint8_t signs_scales[32];
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

// Sixteen sub-blocks of 16: e = d * (1 + 2 * scale) / 8 * point; scale: nibble s of `scales`. Point k (of 32) is qs[k]
// with bits 2 * k and 2 * k + 1 of qh above; its signs are signs[k].
struct BlockIQ2_S {
    static constexpr int kElements = 256;
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_S) == 82);

// As iq2_s, but qs[k] has 9 bits of the point and 7 bits of signs above.
struct BlockIQ2_XS {
    static constexpr int kElements = 256;
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_XS) == 74);

// Eight sub-blocks of 32: e = d * (1 + 2 * scale) / 8 * point. qs has 8 bytes for each: four points, and a u32 as in
// iq3_xxs.
struct BlockIQ2_XXS {
    static constexpr int kElements = 256;
    uint16_t d;
    uint8_t qs[64];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

// Eight sub-blocks of 32: e = d * (1 + 2 * scale) * (point + shift). Point 4 * s + l is its byte of qs with bits 3 * l
// to 3 * l + 2 of qh[s] above; bits 12 to 14 are the scale, and bit 15 makes the shift -1/8, otherwise it is 1/8.
struct BlockIQ1_S {
    static constexpr int kElements = 256;
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
};
static_assert(sizeof(BlockIQ1_S) == 50);

// Sixteen sub-blocks of 16: e = d * (1 + 2 * scale) * (point + shift). Point k (of 32) is qs[k] with three bits of
// nibble k of qh above, whose fourth is the sign of the shift. Each of `scales` has four scales of 3 bits, and four
// bits of d.
struct BlockIQ1_M {
    static constexpr int kElements = 256;
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4];
};
static_assert(sizeof(BlockIQ1_M) == 56);

// e = d * (q - 1). Bytes of qs hold five q, as digits of base 3 after the point: of elements i + 32 * n for qs[i], i <
// 32, then of 160 + i + 16 * n for qs[32 + i]; qh[i] holds four, of 240 + i + 4 * n. See ternary_digit().
struct BlockTQ1_0 {
    static constexpr int kElements = 256;
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
};
static_assert(sizeof(BlockTQ1_0) == 54);

// e = d * (q - 1); q as in q2_k
struct BlockTQ2_0 {
    static constexpr int kElements = 256;
    uint8_t qs[64];
    uint16_t d;
};
static_assert(sizeof(BlockTQ2_0) == 66);

// e[i] = d * (q - 1), q bits 2 * (i % 4) and the next of qs[i / 4]
struct BlockQ2_0 {
    static constexpr int kElements = 64;
    uint16_t d;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ2_0) == 18);

// e[i] = d where bit i % 8 of qs[i / 8] is set, else -d
struct BlockQ1_0 {
    static constexpr int kElements = 128;
    uint16_t d;
    uint8_t qs[16];
};
static_assert(sizeof(BlockQ1_0) == 18);

// Calls visit(std::type_identity<Block>()) with the block of a quantized type.
template <typename Visit>
decltype(auto) with_block(DType dtype, const Visit& visit) {
    switch (dtype) {
        case DType::q8_0:
            return visit(std::type_identity<BlockQ8_0>());
        case DType::q4_0:
            return visit(std::type_identity<BlockQ4_0>());
        case DType::q4_1:
            return visit(std::type_identity<BlockQ4_1>());
        case DType::q5_0:
            return visit(std::type_identity<BlockQ5_0>());
        case DType::q5_1:
            return visit(std::type_identity<BlockQ5_1>());
        case DType::q4_k:
            return visit(std::type_identity<BlockQ4_K>());
        case DType::q5_k:
            return visit(std::type_identity<BlockQ5_K>());
        case DType::q6_k:
            return visit(std::type_identity<BlockQ6_K>());
        case DType::q2_k:
            return visit(std::type_identity<BlockQ2_K>());
        case DType::q3_k:
            return visit(std::type_identity<BlockQ3_K>());
        case DType::iq4_nl:
            return visit(std::type_identity<BlockIQ4_NL>());
        case DType::iq4_xs:
            return visit(std::type_identity<BlockIQ4_XS>());
        case DType::mxfp4:
            return visit(std::type_identity<BlockMXFP4>());
        case DType::nvfp4:
            return visit(std::type_identity<BlockNVFP4>());
        case DType::iq3_s:
            return visit(std::type_identity<BlockIQ3_S>());
        case DType::iq3_xxs:
            return visit(std::type_identity<BlockIQ3_XXS>());
        case DType::iq2_s:
            return visit(std::type_identity<BlockIQ2_S>());
        case DType::iq2_xs:
            return visit(std::type_identity<BlockIQ2_XS>());
        case DType::iq2_xxs:
            return visit(std::type_identity<BlockIQ2_XXS>());
        case DType::iq1_s:
            return visit(std::type_identity<BlockIQ1_S>());
        case DType::iq1_m:
            return visit(std::type_identity<BlockIQ1_M>());
        case DType::tq1_0:
            return visit(std::type_identity<BlockTQ1_0>());
        case DType::tq2_0:
            return visit(std::type_identity<BlockTQ2_0>());
        case DType::q2_0:
            return visit(std::type_identity<BlockQ2_0>());
        case DType::q1_0:
            return visit(std::type_identity<BlockQ1_0>());
        case DType::f32:
        case DType::f16:
        case DType::bf16:
        case DType::i32:
            break;
    }
    check_failed(__FILE__, __LINE__, "plain types have no blocks");
}

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

// The 6-bit scale of sub-block `s` (0..16) of q3_k: the low four bits of all are nibbles of bytes 0..8, first the low
// ones of each; the high two are in bytes 8..12, in the byte s % 4 at bit 2 * (s / 4).
inline int q3_k_scale(const uint8_t* scales, int s) {
    const int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    return low | ((scales[8 + s % 4] >> (2 * (s / 4))) & 3) << 4;
}

// The 6-bit scale of sub-block `s` (0..8) of iq4_xs.
inline int iq4_xs_scale(const BlockIQ4_XS& b, int s) {
    return ((b.scales_l[s / 2] >> (4 * (s % 2))) & 15) | ((b.scales_h >> (2 * s)) & 3) << 4;
}

// What the nibbles of iq4_nl and iq4_xs stand for; and those of mxfp4 and nvfp4, floats of 4 bits, doubled.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kFp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// The scales of nvfp4: 4 bits of exponent, 3 of mantissa, the top bit is not used; the largest code is no number, and
// 0.
float ue4m3_to_f32(uint8_t bits);
// The scale of mxfp4, 2^(e - 128): half of what the exponent says, since kFp4Values are doubled.
float mxfp4_scale(uint8_t e);

// Digit `n` (0..5) of a byte of tq1_0: 0, 1 or 2.
inline int ternary_digit(uint8_t byte, int n) {
    constexpr int kPowers[5] = {1, 3, 9, 27, 81};
    return (((byte * kPowers[n]) & 255) * 3) >> 8;
}

// Eight signs of seven: the eighth makes the number of those that are set even.
inline uint8_t even_signs(uint32_t seven) {
    return static_cast<uint8_t>(seven | (static_cast<uint32_t>(__builtin_parity(seven)) << 7));
}

// The scale of a whole block of iq1_m, an f16.
inline uint16_t iq1_m_scale(const BlockIQ1_M& b) {
    return static_cast<uint16_t>((b.scales[0] >> 12) | ((b.scales[1] >> 8) & 0xf0) | ((b.scales[2] >> 4) & 0xf00) |
                                 (b.scales[3] & 0xf000));
}

// A row of `cols` elements, a multiple of the type's block. `in` and `out` need no alignment.
void decode_row(DType dtype, const std::byte* in, float* out, int64_t cols);

// Whether encode_row() makes rows of the type: all but i32 and some that are made of points of code books.
bool has_encoder(DType dtype);

// f16 and bf16 round as IEEE 754 does. In the block types NaN becomes 0 and magnitudes beyond f16 (65504, infinity too)
// become that, so any input gives a valid block. `importance` says for each of the `cols` columns how much an error
// there counts, as numbers >= 0; null: columns count alike. Plain types and q8_0 do not need it.
void encode_row(DType dtype, const float* in, std::byte* out, int64_t cols, const float* importance = nullptr);

}  // namespace tandem::format
