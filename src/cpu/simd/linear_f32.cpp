// Linear in f32 for every weight type that has no kernel of its own: a tile of weights is decoded once and multiplied
// with all rows of x while it lies in the cache. f32 weights are used where they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/linear_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
#include <hwy/cache_control.h>
// clang-format on

#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/simd/decode-inl.h"
#include "cpu/simd/dot-inl.h"
#include "cpu/simd/linear_f32.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

// Multiplies and stores, or adds to what earlier columns gave.
template <int kRows, int kOutputs>
void multiply_into(const F32Product& p, const Operands& in, int64_t row, int64_t output, bool first) {
    float sums[kRows][kOutputsAtOnce];
    dot_products<kRows, kOutputs>(in, sums);
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

// Columns are taken in pieces, row by row, which is not an order that the processor foresees: so it is told what the
// next tile will need of the row in this row's place.
HWY_INLINE void prefetch_next(const Input& weight, int64_t row, int64_t distance, RowRange cols) {
    if (row + distance >= weight.rows) return;
    const std::byte* begin = weight.row(row + distance) + row_bytes(weight.dtype, cols.begin);
    const auto bytes = static_cast<int64_t>(row_bytes(weight.dtype, cols.end - cols.begin));
    for (int64_t i = 0; i < bytes; i += 64) hwy::Prefetch(begin + i);
}

// All rows of x with the rows `outputs` of the weights, which fit in a tile.
void multiply_tile(const F32Product& p, float* tile, RowRange outputs) {
    const DecodeSpan decode = decoder_of(p.weight.dtype);
    const bool in_place = p.weight.dtype == DType::f32;
    for (int64_t first = 0; first < p.weight.cols; first += kTileCols) {
        const int64_t count = std::min(p.weight.cols - first, kTileCols);
        Operands in{.w = tile, .w_stride = kTileStride, .x = nullptr, .x_stride = p.x.cols, .count = count};
        if (in_place) {
            in.w = reinterpret_cast<const float*>(p.weight.row(outputs.begin)) + first;
            in.w_stride = p.weight.cols;
        } else {
            for (int64_t o = outputs.begin; o < outputs.end; ++o) {
                prefetch_next(p.weight, o, outputs.end - outputs.begin, {first, first + count});
                decode(p.weight.row(o), first, count, tile + (o - outputs.begin) * kTileStride);
            }
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
