// The weight types with blocks of 256, as int8_weights-inl.h says, for the current SIMD target.
#if defined(TANDEM_CPU_SIMD_INT8_WEIGHTS_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_INT8_WEIGHTS_K_INL_H_
#undef TANDEM_CPU_SIMD_INT8_WEIGHTS_K_INL_H_
#else
#define TANDEM_CPU_SIMD_INT8_WEIGHTS_K_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "cpu/simd/int8_weights-inl.h"
#include "cpu/simd/unroll.h"
#include "format/quant.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

HWY_INLINE VF32 set_f16(uint16_t bits) {
    const hn::CappedTag<float, 4> d;
    const hn::Rebind<hwy::float16_t, decltype(d)> d16;
    const auto halves = hn::BitCast(d16, hn::Set(hn::Rebind<uint16_t, decltype(d)>(), bits));
    return hn::Set(DF32(), hn::GetLane(hn::PromoteTo(d, halves)));
}

// format::k_scale_min() for all eight at once: bytes of the scales, then of the minima. 128 bits hold d, dmin and what
// is packed, as they lie in the file.
HWY_INLINE hn::Vec<hn::Full128<uint8_t>> unpack_scales(const uint8_t* header) {
    const hn::Full128<uint8_t> d;
    const hn::Full128<uint32_t> d32;
    alignas(16) static constexpr uint8_t kLow[16] = {4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15};
    alignas(16) static constexpr uint8_t kTop[16] = {128, 128, 128, 128, 4, 5, 6, 7, 128, 128, 128, 128, 8, 9, 10, 11};
    alignas(16) static constexpr uint32_t kShift[4] = {0, 0, 0, 4};
    alignas(16) static constexpr uint32_t kMask[4] = {0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f};
    const auto all = hn::LoadU(d, header);
    const auto low = hn::BitCast(d32, hn::TableLookupBytes(all, hn::Load(d, kLow)));
    const auto top = hn::BitCast(d32, hn::TableLookupBytesOr0(all, hn::Load(d, kTop)));
    const auto bits = hn::And(hn::Shr(low, hn::Load(d32, kShift)), hn::Load(d32, kMask));
    return hn::BitCast(d, hn::Or(bits, hn::And(hn::ShiftRight<2>(top), hn::Set(d32, 0x30303030))));
}

// q4_k and q5_k: eight runs of 32 with a scale and a minimum of 6 bits.
template <class B>
struct BlocksKMinimum {
    using Block = B;
    static constexpr int kRun = 32;
    static constexpr int kRuns = 8;
    static constexpr int kBlocks = 1;
    static constexpr int kOffset = 1;  // bytes are unsigned
    static constexpr bool kMinimum = true;
    static constexpr bool kPaired = false;
    static constexpr bool kAlternate = kLanes == 16;
    static constexpr int kPacked = 0;

    static HWY_INLINE RunScales<(kLanes > 8 ? 1 : 8 / kLanes)> scales(const Block* block, int /*count*/) {
        const auto bytes = unpack_scales(reinterpret_cast<const uint8_t*>(block));
        RunScales<(kLanes > 8 ? 1 : 8 / kLanes)> made;
#if HWY_CAP_GE512
        uint32_t factors = 0;
        std::memcpy(&factors, &block->d, sizeof(factors));  // d and dmin
        const __m128 both = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(factors)));
        alignas(64) static constexpr int32_t kHalves[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
        const VF32 factor{_mm512_permutexvar_ps(_mm512_load_si512(kHalves), _mm512_castps128_ps512(both))};
        made.scale[0] = convert(bytes, factor);
        made.minimum[0] = hn::Zero(DF32());
#else
        widen(hn::LowerHalf(bytes), set_f16(block->d), made.scale);
        widen(hn::UpperHalf(hn::Full64<uint8_t>(), bytes), hn::Neg(set_f16(block->dmin)), made.minimum);
#endif
        return made;
    }

  protected:
#if !HWY_CAP_GE512
    // Eight bytes as floats times `factor`.
    template <class V, size_t kCount>
    static HWY_INLINE void widen(V eight, VF32 factor, VF32 (&out)[kCount]) {
        if constexpr (kLanes == 8) {
            out[0] = convert(eight, factor);
        } else {
            out[0] = convert(hn::LowerHalf(eight), factor);
            out[kCount - 1] = convert(hn::UpperHalf(hn::Full32<uint8_t>(), eight), factor);
        }
    }
#endif
    template <class V>
    static HWY_INLINE VF32 convert(V bytes, VF32 factor) {
        return hn::Mul(hn::ConvertTo(DF32(), hn::PromoteTo(DI32(), bytes)), factor);
    }

    static HWY_INLINE VU8 nibbles(const Block* block, int v) {
#if HWY_CAP_GE512
        const hn::ScalableTag<uint32_t> d32;
        alignas(64) static constexpr uint32_t kShift[16] = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
        const VU8 q = load_twice(block->qs + 32 * v);
        return hn::And(hn::BitCast(DU8(), hn::Shr(hn::BitCast(d32, q), hn::Load(d32, kShift))), set_byte(0x0f));
#else
        const int element = v * kBytes;
        const VU8 q = hn::LoadU(DU8(), block->qs + element / 64 * 32 + element % 32);
        return hn::And(element / 32 % 2 == 0 ? q : shift_right<4>(q), set_byte(0x0f));
#endif
    }

    static HWY_INLINE VU8 alternate_nibbles(const Block* block, int v) {
        const VU8 q = hn::LoadU(DU8(), block->qs + v / 2 * kBytes);
        return hn::And(v % 2 == 0 ? q : shift_right<4>(q), set_byte(0x0f));
    }
};

struct WeightsQ4_K : BlocksKMinimum<format::BlockQ4_K> {
    static constexpr int kPacked = 8;

    static HWY_INLINE VU8 load_packed(const Block* block, int v) { return hn::LoadU(DU8(), block->qs + v * kBytes); }
    static HWY_INLINE BytePair split(VU8 q) { return nibble_pair(q); }
    static HWY_INLINE VU8 load(const Block* block, int v) { return nibbles(block, v); }  // where load_few is not used
    static HWY_INLINE VU8 load_few(const Block* block, int v) { return alternate_nibbles(block, v); }
};

struct WeightsQ5_K : BlocksKMinimum<format::BlockQ5_K> {
    static HWY_INLINE VU8 load(const Block* block, int v) {
#if HWY_CAP_GE512
        return with_fifth(nibbles(block, v), rotate_halves(load_twice(block->qh), 4 - 2 * v, 3 - 2 * v));
#else
        const int element = v * kBytes;
        return with_fifth(nibbles(block, v), move_bit(hn::LoadU(DU8(), block->qh + element % 32), element / 32, 4));
#endif
    }
#if HWY_CAP_GE512
    static HWY_INLINE VU8 load_few(const Block* block, int v) {
        const int run = v / 2 * 4 + v % 2;  // and run + 2
        return with_fifth(alternate_nibbles(block, v), rotate_halves(load_twice(block->qh), 4 - run, 2 - run));
    }
#endif

  private:
    static HWY_INLINE VU8 with_fifth(VU8 q, VU8 fifth) {
        return hn::Or(q, hn::And(fifth, set_byte(16)));
    }
};

// Sixteen runs of 16.
template <class B>
struct BlocksOf16 {
    using Block = B;
    static constexpr int kRun = 16;
    static constexpr int kRuns = 16;
    static constexpr int kBlocks = 1;
    static constexpr bool kMinimum = false;
    static constexpr bool kPaired = false;
    static constexpr bool kAlternate = false;
    static constexpr int kPacked = 0;

  protected:
    using Scales = RunScales<16 / kLanes>;
    using Bytes = hn::Full128<uint8_t>;

    // (bytes[i] - offset) * factor
    template <class D, class V>
    static HWY_INLINE void widen(D d, V bytes, int offset, VF32 factor, VF32 (&out)[16 / kLanes]) {
        alignas(16) hn::TFromD<D> lanes[16];
        hn::Store(bytes, d, lanes);
        TANDEM_UNROLL
        for (int i = 0; i < 16 / kLanes; ++i) {
            const auto some = hn::Load(hn::Rebind<hn::TFromD<D>, DF32>(), lanes + i * kLanes);
            const VI32 wide = hn::Sub(hn::PromoteTo(DI32(), some), hn::Set(DI32(), offset));
            out[i] = hn::Mul(hn::ConvertTo(DF32(), wide), factor);
        }
    }
    static HWY_INLINE void no_minima(Scales& scales) {
        for (VF32& minimum : scales.minimum) minimum = hn::Zero(DF32());
    }

    // Bits [first, first + 2) of 32 bytes that belong to elements [4 * kLanes * v, ...) of half a block each: q2_k and
    // q3_k. What is above them is for the caller to mask.
    static HWY_INLINE VU8 two_bits(const uint8_t* qs, int v) {
#if HWY_CAP_GE512
        const int shift = 4 * (v % 2);
        return rotate_halves(load_twice(qs + v / 2 * 32), -shift, -shift - 2);
#else
        const int element = v * kBytes;
        return move_bit(hn::LoadU(DU8(), qs + element / 128 * 32 + element % 32), element / 32 % 4 * 2, 0);
#endif
    }
};

struct WeightsQ6_K : BlocksOf16<format::BlockQ6_K> {
    static constexpr int kOffset = 32;

    static HWY_INLINE Scales scales(const Block* block, int /*count*/) {
        const hn::Full128<int8_t> d;
        Scales made;
        widen(d, hn::LoadU(d, block->scales), 0, set_f16(block->d), made.scale);
        no_minima(made);
        return made;
    }

    static HWY_INLINE VU8 load(const Block* block, int v) {
#if HWY_CAP_GE512
        const int half = v / 2;
        const int group = 2 * (v % 2);
        VU8 low = hn::LoadU(DU8(), block->ql + 64 * half);
        if (group > 0) low = shift_right<4>(low);
        const VU8 high = rotate_halves(load_twice(block->qh + 32 * half), 4 - 2 * group, 2 - 2 * group);
#else
        const int element = v * kBytes;
        const int half = element / 128;
        const int group = element / 32 % 4;
        VU8 low = hn::LoadU(DU8(), block->ql + 64 * half + 32 * (group % 2) + element % 32);
        if (group > 1) low = shift_right<4>(low);
        const VU8 high = move_bit(hn::LoadU(DU8(), block->qh + 32 * half + element % 32), 2 * group, 4);
#endif
        return hn::Or(hn::And(low, set_byte(0x0f)), hn::And(high, set_byte(0x30)));
    }
};

struct WeightsQ2_K : BlocksOf16<format::BlockQ2_K> {
    static constexpr int kOffset = 1;  // bytes are unsigned
    static constexpr bool kMinimum = true;

    static HWY_INLINE Scales scales(const Block* block, int /*count*/) {
        const Bytes d;
        const auto both = hn::LoadU(d, block->scales);
        const auto four_bits = hn::Set(d, 0x0f);
        const auto high = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(hn::Full128<uint16_t>(), both)));
        Scales made;
        widen(d, hn::And(both, four_bits), 0, set_f16(block->d), made.scale);
        widen(d, hn::And(high, four_bits), 0, hn::Neg(set_f16(block->dmin)), made.minimum);
        return made;
    }

    static HWY_INLINE VU8 load(const Block* block, int v) { return hn::And(two_bits(block->qs, v), set_byte(3)); }
};

struct WeightsQ3_K : BlocksOf16<format::BlockQ3_K> {
    static constexpr int kOffset = 4;

    // format::q3_k_scale() for all at once.
    static HWY_INLINE Scales scales(const Block* block, int /*count*/) {
        const Bytes d;
        const hn::Full128<uint32_t> d32;
        alignas(16) static constexpr uint8_t kLow[16] = {2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5, 6, 7, 8, 9};
        alignas(16) static constexpr uint8_t kTop[16] = {10, 11, 12, 13, 10, 11, 12, 13,
                                                         10, 11, 12, 13, 10, 11, 12, 13};
        alignas(16) static constexpr uint32_t kLowShift[4] = {0, 0, 4, 4};
        alignas(16) static constexpr uint32_t kTopShift[4] = {0, 2, 4, 6};
        const auto all = hn::LoadU(d, block->scales - 2);  // two bytes of qs, the scales, d: no byte behind the block
        const auto low =
            hn::Shr(hn::BitCast(d32, hn::TableLookupBytes(all, hn::Load(d, kLow))), hn::Load(d32, kLowShift));
        const auto top =
            hn::Shr(hn::BitCast(d32, hn::TableLookupBytes(all, hn::Load(d, kTop))), hn::Load(d32, kTopShift));
        const auto low_bits = hn::And(low, hn::Set(d32, 0x0f0f0f0f));
        const auto top_bits = hn::ShiftLeft<4>(hn::And(top, hn::Set(d32, 0x03030303)));
        Scales made;
        widen(d, hn::BitCast(d, hn::Or(low_bits, top_bits)), 32, set_f16(block->d), made.scale);
        no_minima(made);
        return made;
    }

    static HWY_INLINE VU8 load(const Block* block, int v) {
#if HWY_CAP_GE512
        const VU8 third = rotate_halves(load_twice(block->hmask), 2 - 2 * v, 1 - 2 * v);
#else
        const int element = v * kBytes;
        const VU8 third = move_bit(hn::LoadU(DU8(), block->hmask + element % 32), element / 32, 2);
#endif
        return hn::Or(hn::And(two_bits(block->qs, v), set_byte(3)), hn::And(third, set_byte(4)));
    }
};

// Eight runs of 32 whose nibbles lie as in q4_0, one after the other.
struct NibblesIQ4_XS {
    using Block = format::BlockIQ4_XS;
    static constexpr int kRun = 32;
    static constexpr int kRuns = 8;
    static constexpr int kBlocks = 1;
    static constexpr bool kMinimum = false;
    static constexpr bool kPaired = true;
    static constexpr bool kAlternate = false;
    static constexpr int kPacked = 4;
    using Scales = RunScales<(kLanes > 8 ? 1 : 8 / kLanes)>;

    // format::iq4_xs_scale() for all at once, in the bytes of a word.
    static HWY_INLINE Scales scales(const Block* block, int /*count*/) {
        uint32_t low = 0;
        std::memcpy(&low, block->scales_l, sizeof(low));
        uint64_t top = block->scales_h;
        top = (top | top << 24) & 0x000000ff000000ff;
        top = (top | top << 12) & 0x000f000f000f000f;
        top = (top | top << 6) & 0x0303030303030303;
        const uint64_t bytes = every_second(low & 0x0f0f0f0f) | every_second((low >> 4) & 0x0f0f0f0f) << 8 | top << 4;

        const hn::Full128<uint64_t> d64;
        const auto lanes = hn::BitCast(hn::Full128<uint8_t>(), hn::Set(d64, bytes));
        const VF32 d = set_f16(block->d);
        Scales made;
        for (VF32& minimum : made.minimum) minimum = hn::Zero(DF32());
#if HWY_CAP_GE512
        made.scale[0] = hn::IfThenElseZero(hn::FirstN(DF32(), 8), convert(lanes, d));
#elif HWY_CAP_GE256
        made.scale[0] = convert(hn::LowerHalf(lanes), d);
#else
        made.scale[0] = convert(hn::LowerHalf(hn::LowerHalf(lanes)), d);
        made.scale[1] = convert(hn::UpperHalf(hn::Full32<uint8_t>(), hn::LowerHalf(lanes)), d);
#endif
        return made;
    }

    static HWY_INLINE VU8 load_packed(const Block* block, int v) {
        return hn::LoadU(DU8(), block->qs + v * kBytes);
    }

  private:
    // Byte i of four becomes byte 2 * i.
    static HWY_INLINE uint64_t every_second(uint64_t bytes) {
        bytes = (bytes | bytes << 16) & 0x0000ffff0000ffff;
        return (bytes | bytes << 8) & 0x00ff00ff00ff00ff;
    }
    template <class V>
    static HWY_INLINE VF32 convert(V bytes, VF32 factor) {
        const VI32 scale = hn::Sub(hn::PromoteTo(DI32(), bytes), hn::Set(DI32(), 32));
        return hn::Mul(hn::ConvertTo(DF32(), scale), factor);
    }
};
struct WeightsIQ4_XS : TableOf<NibblesIQ4_XS, format::kIq4Values, kQ8Offset> {};

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
