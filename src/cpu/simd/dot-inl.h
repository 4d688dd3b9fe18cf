// Dot products of several f32 rows with several others at once, for the current SIMD target.
#if defined(TANDEM_CPU_SIMD_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_DOT_INL_H_
#undef TANDEM_CPU_SIMD_DOT_INL_H_
#else
#define TANDEM_CPU_SIMD_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/simd/sum_lanes-inl.h"
#include "cpu/simd/unroll.h"
HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

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
