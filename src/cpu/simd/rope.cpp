// Rope: the angles of a row are the same for all its heads, so their sines are computed once per row.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/rope.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Pairs i and i + n of a head.
HWY_INLINE void turn_halves(const float* x, const float* cos, const float* sin, int64_t n, float* y) {
    const hn::ScalableTag<float> d;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + step <= n; i += step) {
        const auto a = hn::LoadU(d, x + i);
        const auto b = hn::LoadU(d, x + n + i);
        const auto c = hn::LoadU(d, cos + i);
        const auto s = hn::LoadU(d, sin + i);
        hn::StoreU(hn::NegMulAdd(b, s, hn::Mul(a, c)), d, y + i);
        hn::StoreU(hn::MulAdd(a, s, hn::Mul(b, c)), d, y + n + i);
    }
    for (; i < n; ++i) {
        const float a = x[i];
        const float b = x[n + i];
        y[i] = a * cos[i] - b * sin[i];
        y[n + i] = a * sin[i] + b * cos[i];
    }
}

// Pairs 2i and 2i + 1.
HWY_INLINE void turn_neighbours(const float* x, const float* cos, const float* sin, int64_t n, float* y) {
    for (int64_t i = 0; i < n; ++i) {
        const float a = x[2 * i];
        const float b = x[2 * i + 1];
        y[2 * i] = a * cos[i] - b * sin[i];
        y[2 * i + 1] = a * sin[i] + b * cos[i];
    }
}

void rope_rows(const op::Rope& op, const Args& args, float* scratch, RowRange rows) {
    const auto pairs = static_cast<int64_t>(op.inv_freq.size());
    float* cos = scratch;
    float* sin = scratch + pairs;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const auto position = static_cast<double>(args.in[1].i32()[r]);
        for (int64_t i = 0; i < pairs; ++i) {
            const double angle = position * op.inv_freq[static_cast<size_t>(i)];
            cos[i] = static_cast<float>(std::cos(angle)) * op.magnitude;
            sin[i] = static_cast<float>(std::sin(angle)) * op.magnitude;
        }
        for (int64_t head = 0; head < args.out.cols; head += op.head_dim) {
            const float* x = args.in[0].f32(r) + head;
            float* y = args.out.f32(r) + head;
            if (op.layout == op::RopeLayout::half) {
                turn_halves(x, cos, sin, pairs, y);
            } else {
                turn_neighbours(x, cos, sin, pairs, y);
            }
            std::copy(x + 2 * pairs, x + op.head_dim, y + 2 * pairs);
        }
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(rope_rows);

size_t floats_per_thread(const op::Rope& op) {
    return (2 * op.inv_freq.size() + 15) / 16 * 16;
}

size_t scratch_bytes(const op::Rope& op, const NodePlan& plan) {
    return static_cast<size_t>(plan.threads) * floats_per_thread(op) * sizeof(float);
}

void rope(const op::Rope& op, const Args& args) {
    auto* scratch = reinterpret_cast<float*>(args.step.scratch.data());
    const auto run = HWY_DYNAMIC_DISPATCH(rope_rows);
    args.step.for_each_range(args.out.rows, kPieceElements / args.out.cols + 1,
                             [&](int64_t begin, int64_t end, int thread) {
                                 float* own = scratch + static_cast<size_t>(thread) * floats_per_thread(op);
                                 run(op, args, own, {begin, end});
                             });
}

const Registration<op::Rope> kFast{FastKernel<op::Rope>{.run = rope, .scratch_bytes = scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
