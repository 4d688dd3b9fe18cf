// Decoding rows of every weight type to f32, for the current SIMD target. What the bits mean is told in format/quant.h.
#if defined(TANDEM_CPU_SIMD_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_DECODE_INL_H_
#undef TANDEM_CPU_SIMD_DECODE_INL_H_
#else
#define TANDEM_CPU_SIMD_DECODE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "format/quant.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;  // a sub-block of 16 is the least that shares a scale
using DI = hn::RebindToSigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
inline constexpr int kWidth = static_cast<int>(hn::MaxLanes(DF()));

// kWidth bytes as integers.
HWY_INLINE VI load_bytes(const uint8_t* bytes) {
    return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<uint8_t, DF>(), bytes));
}

HWY_INLINE VI low_nibble(VI q) {
    return hn::And(q, hn::Set(DI(), 15));
}
HWY_INLINE VI high_nibble(VI q) {
    return hn::ShiftRight<4>(q);
}

// out = scale * q + offset
HWY_INLINE void store_scaled(VI q, VF scale, VF offset, float* out) {
    hn::StoreU(hn::MulAdd(hn::ConvertTo(DF(), q), scale, offset), DF(), out);
}

HWY_INLINE VF set_f16(uint16_t bits) {
    return hn::Set(DF(), f16_to_f32(bits));
}

HWY_INLINE void decode_block(const format::BlockQ8_0& block, float* out) {
    const VF d = set_f16(block.d);
    for (int i = 0; i < 32; i += kWidth) {
        const VI q = hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, DF>(), block.qs + i));
        hn::StoreU(hn::Mul(hn::ConvertTo(DF(), q), d), DF(), out + i);
    }
}

// The types of 32 elements, whose nibbles lie as in q4_0: scale * q + offset.
HWY_INLINE void decode_nibbles(const uint8_t* qs, VF scale, VF offset, float* out) {
    for (int i = 0; i < 16; i += kWidth) {
        const VI q = load_bytes(qs + i);
        store_scaled(low_nibble(q), scale, offset, out + i);
        store_scaled(high_nibble(q), scale, offset, out + 16 + i);
    }
}

// As before, with a fifth bit for each element in qh.
HWY_INLINE void decode_five_bits(const uint8_t* qs, const uint8_t* qh, VF scale, VF offset, float* out) {
    uint32_t bits = 0;
    std::memcpy(&bits, qh, sizeof(bits));
    const VI sixteen = hn::Set(DI(), 16);
    const VI low = hn::Set(DI(), static_cast<int32_t>((bits << 16) >> 16));
    const VI high = hn::Set(DI(), static_cast<int32_t>(bits >> 16));
    for (int i = 0; i < 16; i += kWidth) {
        alignas(64) static constexpr int32_t kBit[16] = {1 << 0,  1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                                         1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                                         1 << 12, 1 << 13, 1 << 14, 1 << 15};
        const VI q = load_bytes(qs + i);
        const VI bit = hn::Load(DI(), kBit + i);
        const auto in_low = hn::TestBit(low, bit);
        const auto in_high = hn::TestBit(high, bit);
        store_scaled(hn::Or(low_nibble(q), hn::IfThenElseZero(in_low, sixteen)), scale, offset, out + i);
        store_scaled(hn::Or(high_nibble(q), hn::IfThenElseZero(in_high, sixteen)), scale, offset, out + 16 + i);
    }
}

HWY_INLINE void decode_block(const format::BlockQ4_0& block, float* out) {
    const VF d = set_f16(block.d);
    decode_nibbles(block.qs, d, hn::Mul(d, hn::Set(DF(), -8.0F)), out);
}
HWY_INLINE void decode_block(const format::BlockQ4_1& block, float* out) {
    decode_nibbles(block.qs, set_f16(block.d), set_f16(block.m), out);
}
HWY_INLINE void decode_block(const format::BlockQ5_0& block, float* out) {
    const VF d = set_f16(block.d);
    decode_five_bits(block.qs, block.qh, d, hn::Mul(d, hn::Set(DF(), -16.0F)), out);
}
HWY_INLINE void decode_block(const format::BlockQ5_1& block, float* out) {
    decode_five_bits(block.qs, block.qh, set_f16(block.d), set_f16(block.m), out);
}

// The scales, and the minima with a minus, of the eight sub-blocks of q4_k or q5_k: format::k_scale_min() for four of
// them at a time, in the bytes of 32-bit words.
struct KScales {
    alignas(32) float scale[8];
    alignas(32) float min[8];
};
HWY_INLINE KScales unpack_scales(const uint8_t* packed, float d, float dmin) {
    uint32_t words[3];
    std::memcpy(words, packed, sizeof(words));
    constexpr uint32_t kSixBits = 0x3f3f3f3f;
    constexpr uint32_t kFourBits = 0x0f0f0f0f;
    constexpr uint32_t kTopBits = 0x30303030;
    const uint32_t scales[2] = {words[0] & kSixBits, (words[2] & kFourBits) | ((words[0] >> 2) & kTopBits)};
    const uint32_t mins[2] = {words[1] & kSixBits, ((words[2] >> 4) & kFourBits) | ((words[1] >> 2) & kTopBits)};
    const hn::CappedTag<float, 8> df;
    const hn::RebindToSigned<decltype(df)> di;
    const hn::Rebind<uint8_t, decltype(df)> d8;
    KScales out;
    for (size_t i = 0; i < 8; i += hn::Lanes(df)) {
        const auto scale = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(scales) + i));
        const auto min = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(mins) + i));
        hn::StoreU(hn::Mul(hn::ConvertTo(df, scale), hn::Set(df, d)), df, out.scale + i);
        hn::StoreU(hn::Mul(hn::ConvertTo(df, min), hn::Set(df, -dmin)), df, out.min + i);
    }
    return out;
}

HWY_INLINE void decode_block(const format::BlockQ4_K& block, float* out) {
    const KScales k = unpack_scales(block.scales, f16_to_f32(block.d), f16_to_f32(block.dmin));
    for (int c = 0; c < 4; ++c, out += 64) {
        const VF first_scale = hn::Set(DF(), k.scale[2 * c]);
        const VF first_min = hn::Set(DF(), k.min[2 * c]);
        const VF second_scale = hn::Set(DF(), k.scale[2 * c + 1]);
        const VF second_min = hn::Set(DF(), k.min[2 * c + 1]);
        for (int i = 0; i < 32; i += kWidth) {
            const VI q = load_bytes(block.qs + 32 * c + i);
            store_scaled(low_nibble(q), first_scale, first_min, out + i);
            store_scaled(high_nibble(q), second_scale, second_min, out + 32 + i);
        }
    }
}

HWY_INLINE void decode_block(const format::BlockQ5_K& block, float* out) {
    const KScales k = unpack_scales(block.scales, f16_to_f32(block.d), f16_to_f32(block.dmin));
    const VI sixteen = hn::Set(DI(), 16);
    for (int c = 0; c < 4; ++c, out += 64) {
        const VF first_scale = hn::Set(DF(), k.scale[2 * c]);
        const VF first_min = hn::Set(DF(), k.min[2 * c]);
        const VF second_scale = hn::Set(DF(), k.scale[2 * c + 1]);
        const VF second_min = hn::Set(DF(), k.min[2 * c + 1]);
        const VI first_bit = hn::Set(DI(), 1 << (2 * c));
        const VI second_bit = hn::Set(DI(), 2 << (2 * c));
        for (int i = 0; i < 32; i += kWidth) {
            const VI q = load_bytes(block.qs + 32 * c + i);
            const VI h = load_bytes(block.qh + i);
            const VI first_high = hn::IfThenElseZero(hn::TestBit(h, first_bit), sixteen);
            const VI second_high = hn::IfThenElseZero(hn::TestBit(h, second_bit), sixteen);
            store_scaled(hn::Or(low_nibble(q), first_high), first_scale, first_min, out + i);
            store_scaled(hn::Or(high_nibble(q), second_high), second_scale, second_min, out + 32 + i);
        }
    }
}

// Two of the six bits, from bit kShift of h on, above the four of `low`.
template <int kShift>
HWY_INLINE VI six_bits(VI low, VI h) {
    return hn::Or(low, hn::ShiftLeft<4>(hn::And(hn::ShiftRight<kShift>(h), hn::Set(DI(), 3))));
}

HWY_INLINE void decode_block(const format::BlockQ6_K& block, float* out) {
    const VF d = set_f16(block.d);
    alignas(64) float scales[16];
    for (int i = 0; i < 16; i += kWidth) {
        const VI scale = hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, DF>(), block.scales + i));
        hn::Store(hn::Mul(hn::ConvertTo(DF(), scale), d), DF(), scales + i);
    }
    const auto store = [&](int element, VI bits) HWY_ATTR {
        const VI q = hn::Sub(bits, hn::Set(DI(), 32));
        hn::StoreU(hn::Mul(hn::ConvertTo(DF(), q), hn::Set(DF(), scales[element / 16])), DF(), out + element);
    };
    for (int half = 0; half < 2; ++half) {
        const uint8_t* ql = block.ql + 64 * half;
        for (int l = 0; l < 32; l += kWidth) {
            const VI q = load_bytes(ql + l);
            const VI q32 = load_bytes(ql + 32 + l);
            const VI h = load_bytes(block.qh + 32 * half + l);
            store(128 * half + l, six_bits<0>(low_nibble(q), h));
            store(128 * half + 32 + l, six_bits<2>(low_nibble(q32), h));
            store(128 * half + 64 + l, six_bits<4>(high_nibble(q), h));
            store(128 * half + 96 + l, six_bits<6>(high_nibble(q32), h));
        }
    }
}

// Elements [first, first + count) of a row of blocks; both are multiples of the block.
template <class Block, int kElements>
void decode_blocks(const std::byte* row, int64_t first, int64_t count, float* out) {
    const auto* blocks = reinterpret_cast<const Block*>(row) + first / kElements;
    for (int64_t b = 0; b < count / kElements; ++b) decode_block(blocks[b], out + b * kElements);
}

inline void decode_f16(const std::byte* row, int64_t first, int64_t count, float* out) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> d16;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    const auto* in = reinterpret_cast<const uint16_t*>(row) + first;
    int64_t i = 0;
    for (; i + width <= count; i += width)
        hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(in + i))), d, out + i);
    for (; i < count; ++i) out[i] = f16_to_f32(in[i]);
}

inline void decode_bf16(const std::byte* row, int64_t first, int64_t count, float* out) {
    const auto* in = reinterpret_cast<const uint16_t*>(row) + first;
    const hn::ScalableTag<float> d;
    const hn::Rebind<uint16_t, decltype(d)> d16;
    const hn::RebindToUnsigned<decltype(d)> d32;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + width <= count; i += width)
        hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, in + i)))), d, out + i);
    for (; i < count; ++i) out[i] = bf16_to_f32(in[i]);
}

inline void decode_f32(const std::byte* row, int64_t first, int64_t count, float* out) {
    std::memcpy(out, reinterpret_cast<const float*>(row) + first, static_cast<size_t>(count) * sizeof(float));
}

// As decode_blocks(), for types without code of their own here.
template <DType kType>
void decode_reference(const std::byte* row, int64_t first, int64_t count, float* out) {
    format::decode_row(kType, row + row_bytes(kType, first), out, count);
}

// Decodes elements [first, first + count) of a row.
using DecodeSpan = void (*)(const std::byte* row, int64_t first, int64_t count, float* out);

inline DecodeSpan decoder_of(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return decode_f32;
        case DType::f16:
            return decode_f16;
        case DType::bf16:
            return decode_bf16;
        case DType::q8_0:
            return decode_blocks<format::BlockQ8_0, 32>;
        case DType::q4_0:
            return decode_blocks<format::BlockQ4_0, 32>;
        case DType::q4_1:
            return decode_blocks<format::BlockQ4_1, 32>;
        case DType::q5_0:
            return decode_blocks<format::BlockQ5_0, 32>;
        case DType::q5_1:
            return decode_blocks<format::BlockQ5_1, 32>;
        case DType::q4_k:
            return decode_blocks<format::BlockQ4_K, 256>;
        case DType::q5_k:
            return decode_blocks<format::BlockQ5_K, 256>;
        case DType::q6_k:
            return decode_blocks<format::BlockQ6_K, 256>;
        case DType::q2_k:
            return decode_reference<DType::q2_k>;
        case DType::q3_k:
            return decode_reference<DType::q3_k>;
        case DType::iq4_nl:
            return decode_reference<DType::iq4_nl>;
        case DType::iq4_xs:
            return decode_reference<DType::iq4_xs>;
        case DType::mxfp4:
            return decode_reference<DType::mxfp4>;
        case DType::nvfp4:
            return decode_reference<DType::nvfp4>;
        case DType::iq3_s:
            return decode_reference<DType::iq3_s>;
        case DType::iq3_xxs:
            return decode_reference<DType::iq3_xxs>;
        case DType::iq2_s:
            return decode_reference<DType::iq2_s>;
        case DType::iq2_xs:
            return decode_reference<DType::iq2_xs>;
        case DType::iq2_xxs:
            return decode_reference<DType::iq2_xxs>;
        case DType::iq1_s:
            return decode_reference<DType::iq1_s>;
        case DType::iq1_m:
            return decode_reference<DType::iq1_m>;
        case DType::tq1_0:
            return decode_reference<DType::tq1_0>;
        case DType::tq2_0:
            return decode_reference<DType::tq2_0>;
        case DType::q2_0:
            return decode_reference<DType::q2_0>;
        case DType::q1_0:
            return decode_reference<DType::q1_0>;
        case DType::i32:
            break;
    }
    CHECK(false, "weights are not of this type");
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
