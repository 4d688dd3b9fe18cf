// Dot products of several f32 rows with several others at once, for the current SIMD target.
#if defined(TANDEM_CPU_SIMD_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_DOT_INL_H_
#undef TANDEM_CPU_SIMD_DOT_INL_H_
#else
#define TANDEM_CPU_SIMD_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/simd/unroll.h"
HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DWide = hn::ScalableTag<float>;
using VWide = hn::Vec<DWide>;

inline constexpr int kOutputsAtOnce = 4;
inline constexpr int kRowsAtOnce = HWY_CAP_GE512 ? 6 : 3;  // 24 sums in 32 registers, or 12 in 16

// Rows of weights and rows of x at the same columns.
struct Operands {
    const float* w;
    int64_t w_stride;
    const float* x;
    int64_t x_stride;
    int64_t count;
};

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

// sums[m][o] = x[m] . w[o] for kRows rows of x and kOutputs of w.
template <int kRows, int kOutputs>
HWY_INLINE void dot_products(const Operands& in, float (&sums)[kRows][kOutputsAtOnce]) {
    const DWide d;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    VWide acc[kRows][kOutputsAtOnce];
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        TANDEM_UNROLL
        for (int o = 0; o < kOutputsAtOnce; ++o) acc[m][o] = hn::Zero(d);
    }
    int64_t i = 0;
    for (; i + width <= in.count; i += width) {
        VWide w[kOutputs];
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) w[o] = hn::LoadU(d, in.w + o * in.w_stride + i);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            const VWide x = hn::LoadU(d, in.x + m * in.x_stride + i);
            TANDEM_UNROLL
            for (int o = 0; o < kOutputs; ++o) acc[m][o] = hn::MulAdd(x, w[o], acc[m][o]);
        }
    }
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) sum_lanes(acc[m][0], acc[m][1], acc[m][2], acc[m][3], sums[m]);
    for (; i < in.count; ++i) {
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            TANDEM_UNROLL
            for (int o = 0; o < kOutputs; ++o) sums[m][o] += in.x[m * in.x_stride + i] * in.w[o * in.w_stride + i];
        }
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
