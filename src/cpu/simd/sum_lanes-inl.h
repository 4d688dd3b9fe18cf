// Sums over the lanes of several vectors at once, for the current SIMD target.
#if defined(TANDEM_CPU_SIMD_SUM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_SUM_LANES_INL_H_
#undef TANDEM_CPU_SIMD_SUM_LANES_INL_H_
#else
#define TANDEM_CPU_SIMD_SUM_LANES_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DWide = hn::ScalableTag<float>;
using VWide = hn::Vec<DWide>;

// The four sums of lanes of four vectors.
HWY_INLINE void sum_lanes(VWide a, VWide b, VWide c, VWide d, float* sums) {
#if HWY_TARGET == HWY_SCALAR
    sums[0] = hn::GetLane(a);
    sums[1] = hn::GetLane(b);
    sums[2] = hn::GetLane(c);
    sums[3] = hn::GetLane(d);
#else
    const DWide tag;
    const hn::RepartitionToWide<DWide> pairs;
    const auto ab = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(tag, a, b), hn::InterleaveUpper(tag, a, b)));
    const auto cd = hn::BitCast(pairs, hn::Add(hn::InterleaveLower(tag, c, d), hn::InterleaveUpper(tag, c, d)));
    const VWide abcd = hn::Add(hn::BitCast(tag, hn::InterleaveLower(pairs, ab, cd)),
                               hn::BitCast(tag, hn::InterleaveUpper(pairs, ab, cd)));  // in every 128 bits
#if HWY_CAP_GE512
    const hn::Half<DWide> half;
    const auto folded = hn::Add(hn::LowerHalf(half, abcd), hn::UpperHalf(half, abcd));
#else
    const auto folded = abcd;
#endif
#if HWY_CAP_GE256
    const hn::Full128<float> quarter;
    hn::StoreU(hn::Add(hn::LowerHalf(quarter, folded), hn::UpperHalf(quarter, folded)), quarter, sums);
#else
    hn::StoreU(folded, tag, sums);
#endif
#endif
}

// sums[o][m] of the lanes of vectors[o][m], four at once; always added in the same order, so that an output does not
// depend on how many others were computed beside it, which the number of threads decides.
template <int kOutputs, int kRows>
HWY_INLINE void sum_lanes_of(const VWide (&vectors)[kOutputs][kRows], float (&sums)[kOutputs][kRows]) {
    constexpr int kCount = kOutputs * kRows;
    const VWide* v = &vectors[0][0];
    float* out = &sums[0][0];
    for (int i = 0; i < kCount; i += 4) {
        const auto at = [&](int j) { return v[i + j < kCount ? i + j : kCount - 1]; };
        float four[4];
        sum_lanes(at(0), at(1), at(2), at(3), four);
        for (int j = 0; j < 4 && i + j < kCount; ++j) out[i + j] = four[j];
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
