// Products of 8-bit weights and activations for the current SIMD target.
#if defined(TANDEM_CPU_SIMD_INT8_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_INT8_DOT_INL_H_
#undef TANDEM_CPU_SIMD_INT8_DOT_INL_H_
#else
#define TANDEM_CPU_SIMD_INT8_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // one lane is less than four bytes

namespace hn = hwy::HWY_NAMESPACE;

using DU8 = hn::ScalableTag<uint8_t>;
using DI8 = hn::ScalableTag<int8_t>;
using DI32 = hn::ScalableTag<int32_t>;
using DF32 = hn::ScalableTag<float>;
using VU8 = hn::Vec<DU8>;
using VI8 = hn::Vec<DI8>;
using VI32 = hn::Vec<DI32>;
using VF32 = hn::Vec<DF32>;

inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(DI32()));  // of 32 bits in a vector

// One vector holds one or two blocks, or half of one.
inline constexpr int kBlocksPerVector = kLanes >= 16 ? 2 : 1;
inline constexpr int kVectorsPerBlock = kLanes >= 8 ? 1 : 8 / kLanes;
static_assert(kLanes <= 16, "a vector of more than 512 bits holds more blocks than are handled here");

// acc[i] += sum of w[4i + j] * x[4i + j] over j of 0..4. `kOffset` says how the weights are stored: a weight plus
// kOffset in 8 unsigned bits (then the caller takes kOffset times the activations off again), or, for 0, in 8 signed
// bits.
#if HWY_TARGET == HWY_AVX3_DL

inline constexpr int kQ8Offset = 128;

// In assembly, because this version of Highway asks the compiler for AVX-VNNI but not for AVX512-VNNI, although it
// selects the target only where both are.
template <int kOffset>
HWY_INLINE VI32 dot4(VI32 acc, VU8 w, VI8 x) {
    static_assert(kOffset > 0);
    asm("vpdpbusd %2, %1, %0" : "+v"(acc.raw) : "v"(w.raw), "vm"(x.raw));
    return acc;
}

#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3

// Pairs of products are added in 16 bits, where those of two numbers of 8 bits have room if they are below 128.
inline constexpr int kQ8Offset = 0;

HWY_INLINE VI32 add_pairs(VI32 acc, VU8 w, VI8 x) {
#if HWY_TARGET == HWY_AVX3
    return VI32{_mm512_add_epi32(acc.raw, _mm512_madd_epi16(_mm512_maddubs_epi16(w.raw, x.raw), _mm512_set1_epi16(1)))};
#elif HWY_TARGET == HWY_AVX2
    return VI32{_mm256_add_epi32(acc.raw, _mm256_madd_epi16(_mm256_maddubs_epi16(w.raw, x.raw), _mm256_set1_epi16(1)))};
#else
    return VI32{_mm_add_epi32(acc.raw, _mm_madd_epi16(_mm_maddubs_epi16(w.raw, x.raw), _mm_set1_epi16(1)))};
#endif
}

// x with its sign changed where w is negative.
HWY_INLINE VI8 give_sign(VI8 x, VI8 w) {
#if HWY_TARGET == HWY_AVX2
    return VI8{_mm256_sign_epi8(x.raw, w.raw)};
#elif HWY_TARGET == HWY_AVX3
    return hn::IfThenElse(hn::Lt(w, hn::Zero(DI8())), hn::Neg(x), x);
#else
    return VI8{_mm_sign_epi8(x.raw, w.raw)};
#endif
}

template <int kOffset>
HWY_INLINE VI32 dot4(VI32 acc, VU8 w, VI8 x) {
    if constexpr (kOffset > 0) return add_pairs(acc, w, x);
    const VI8 signed_w = hn::BitCast(DI8(), w);
    return add_pairs(acc, hn::BitCast(DU8(), hn::Abs(signed_w)), give_sign(x, signed_w));
}

#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64

inline constexpr int kQ8Offset = 0;

// In assembly, because this version of Highway has no target with it: linear_int8.cpp asks the processor.
template <int kOffset>
HWY_INLINE VI32 dot4(VI32 acc, VU8 w, VI8 x) {
    static_assert(kOffset < 64, "the weights would not be positive as signed numbers");
    asm(".arch armv8.2-a+crypto+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(acc.raw) : "w"(w.raw), "w"(x.raw));
    return acc;
}

#else

inline constexpr int kQ8Offset = 0;

// Byte j of every 32-bit lane, with its sign.
template <int kByte>
HWY_INLINE VI32 byte_of(VI32 v) {
    return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(v));
}

template <int kOffset>
HWY_INLINE VI32 dot4(VI32 acc, VU8 w, VI8 x) {
    const DI32 d;
    const VI32 w4 = hn::BitCast(d, w);
    const VI32 x4 = hn::BitCast(d, x);
    static_assert(kOffset < 64, "the weights would not be positive as signed numbers");
    acc = hn::Add(acc, hn::Mul(byte_of<0>(w4), byte_of<0>(x4)));
    acc = hn::Add(acc, hn::Mul(byte_of<1>(w4), byte_of<1>(x4)));
    acc = hn::Add(acc, hn::Mul(byte_of<2>(w4), byte_of<2>(x4)));
    return hn::Add(acc, hn::Mul(byte_of<3>(w4), byte_of<3>(x4)));
}

#endif

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
