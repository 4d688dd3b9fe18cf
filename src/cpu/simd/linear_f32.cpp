// Linear in f32 for every weight type that has no kernel of its own: a tile of weights is decoded once and multiplied
// with all rows of x while it lies in the cache. f32 weights are used where they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/linear_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/simd/decode-inl.h"
#include "cpu/simd/linear_f32.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

using DWide = hn::ScalableTag<float>;
using VWide = hn::Vec<DWide>;

inline constexpr int kOutputsAtOnce = 4;
inline constexpr int kRowsAtOnce = HWY_CAP_GE512 ? 6 : 3;  // 24 sums in 32 registers, or 12 in 16

// Rows of decoded weights and of x at the same columns.
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
    alignas(64) float lanes[hn::MaxLanes(tag)];
    hn::Store(abcd, tag, lanes);
    for (int i = 0; i < 4; ++i) {
        sums[i] = lanes[i];
        for (size_t block = 4; block < hn::Lanes(tag); block += 4) sums[i] += lanes[block + static_cast<size_t>(i)];
    }
#endif
}

// sums[m][o] = x[m] . w[o] for kRows rows of x and kOutputs of w.
template <int kRows, int kOutputs>
HWY_INLINE void multiply(const Operands& in, float (&sums)[kRows][kOutputsAtOnce]) {
    const DWide d;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    VWide acc[kRows][kOutputsAtOnce];
    for (int m = 0; m < kRows; ++m) {
        for (int o = 0; o < kOutputsAtOnce; ++o) acc[m][o] = hn::Zero(d);
    }
    int64_t i = 0;
    for (; i + width <= in.count; i += width) {
        VWide w[kOutputs];
        for (int o = 0; o < kOutputs; ++o) w[o] = hn::LoadU(d, in.w + o * in.w_stride + i);
        for (int m = 0; m < kRows; ++m) {
            const VWide x = hn::LoadU(d, in.x + m * in.x_stride + i);
            for (int o = 0; o < kOutputs; ++o) acc[m][o] = hn::MulAdd(x, w[o], acc[m][o]);
        }
    }
    for (int m = 0; m < kRows; ++m) sum_lanes(acc[m][0], acc[m][1], acc[m][2], acc[m][3], sums[m]);
    for (; i < in.count; ++i) {
        for (int m = 0; m < kRows; ++m) {
            for (int o = 0; o < kOutputs; ++o) sums[m][o] += in.x[m * in.x_stride + i] * in.w[o * in.w_stride + i];
        }
    }
}

// Multiplies and stores, or adds to what earlier columns gave.
template <int kRows, int kOutputs>
void multiply_into(const F32Product& p, const Operands& in, int64_t row, int64_t output, bool first) {
    float sums[kRows][kOutputsAtOnce];
    multiply<kRows, kOutputs>(in, sums);
    for (int m = 0; m < kRows; ++m) {
        float* y = p.out.f32(row + m) + output;
        for (int o = 0; o < kOutputs; ++o) {
            const float bias = p.bias != nullptr ? p.bias[output + o] : 0.0F;
            y[o] = sums[m][o] + (first ? bias : y[o]);
        }
    }
}

template <int kRows>
void multiply_rows(const F32Product& p, const Operands& in, int64_t row, RowRange outputs, bool first) {
    Operands at = in;
    int64_t o = outputs.begin;
    for (; o + kOutputsAtOnce <= outputs.end; o += kOutputsAtOnce) {
        at.w = in.w + (o - outputs.begin) * in.w_stride;
        multiply_into<kRows, kOutputsAtOnce>(p, at, row, o, first);
    }
    for (; o < outputs.end; ++o) {
        at.w = in.w + (o - outputs.begin) * in.w_stride;
        multiply_into<kRows, 1>(p, at, row, o, first);
    }
}

// All rows of x with the rows `outputs` of the weights, which fit in a tile.
void multiply_tile(const F32Product& p, float* tile, RowRange outputs) {
    const DecodeSpan decode = decoder_of(p.weight.dtype);
    const bool in_place = p.weight.dtype == DType::f32;
    for (int64_t first = 0; first < p.weight.cols; first += kTileCols) {
        const int64_t count = std::min(p.weight.cols - first, kTileCols);
        Operands in{.w = tile, .w_stride = kTileCols, .x = nullptr, .x_stride = p.x.cols, .count = count};
        if (in_place) {
            in.w = reinterpret_cast<const float*>(p.weight.row(outputs.begin)) + first;
            in.w_stride = p.weight.cols;
        } else {
            for (int64_t o = outputs.begin; o < outputs.end; ++o)
                decode(p.weight.row(o), first, count, tile + (o - outputs.begin) * kTileCols);
        }
        for (int64_t row = 0; row < p.x.rows;) {
            in.x = p.x.f32(row) + first;
            const int64_t left = p.x.rows - row;
            if (left >= kRowsAtOnce) {
                multiply_rows<kRowsAtOnce>(p, in, row, outputs, first == 0);
                row += kRowsAtOnce;
            } else if (left >= 2) {
                multiply_rows<2>(p, in, row, outputs, first == 0);
                row += 2;
            } else {
                multiply_rows<1>(p, in, row, outputs, first == 0);
                row += 1;
            }
        }
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(multiply_tile);

// The 8-bit kernels take these where they can.
bool supports(const op::Linear& /*op*/, graph::InputTypes inputs) {
    const DType dtype = inputs[0].dtype;
    return dtype != DType::i32 && dtype != DType::q4_0 && dtype != DType::q8_0;
}

size_t scratch_bytes(const op::Linear& /*op*/, const NodePlan& plan) {
    return static_cast<size_t>(plan.threads) * kTileFloats * sizeof(float);
}

void linear(const op::Linear& /*op*/, const Args& args) {
    const F32Product product{.weight = args.in[0],
                             .x = args.in[1],
                             .bias = args.in.size() > 2 ? args.in[2].f32() : nullptr,
                             .out = args.out};
    // With few rows of x a small tile stays in the L1 cache; with many a large one is used more often.
    const int64_t tile_outputs = product.x.rows < 8 ? 4 : kTileOutputs;
    const int64_t tiles = (product.weight.rows + tile_outputs - 1) / tile_outputs;
    const auto tile_bytes =
        static_cast<int64_t>(row_bytes(product.weight.dtype, product.weight.cols)) * tile_outputs * product.x.rows;
    auto* scratch = reinterpret_cast<float*>(args.step.scratch.data());
    const auto multiply = HWY_DYNAMIC_DISPATCH(multiply_tile);
    args.step.for_each_range(tiles, kPieceBytes / tile_bytes + 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t t = begin; t < end; ++t) {
            multiply(product, scratch + static_cast<size_t>(thread) * kTileFloats,
                     {t * tile_outputs, std::min((t + 1) * tile_outputs, product.weight.rows)});
        }
    });
}

const Registration<op::Linear> kF32{FastKernel<op::Linear>{linear, supports, scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
