// Linear in f32: for f32, f16 and bf16, and for every type that linear_int8.cpp leaves out.
//
// Few rows of x: weights are widened in registers, each row of them read once, as fast as memory gives it: one after
// the other, since there is so little to do with them that one stream of reads is faster than several. Many rows: a
// tile of weights is decoded once and multiplied with all rows of x while it lies in the cache. f32 weights are used
// where they are.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/linear_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "cpu/simd/decode-inl.h"
#include "cpu/simd/dot-inl.h"
#include "cpu/simd/linear.h"
#include "cpu/simd/streams.h"
#include "cpu/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

inline constexpr int64_t kTileOutputs = 32;
inline constexpr int64_t kTileCols = 1024;  // a tile takes 128 KiB; six rows of x of that length stay in the L1 cache
inline constexpr int64_t kTileStride =
    kTileCols + 16;  // rows 4 KiB apart would compete for the same lines of the cache

// Multiplies and stores, or adds to what earlier columns gave.
template <int kRows, int kOutputs>
void multiply_into(const Product& p, const Operands& in, int64_t row, int64_t output, bool first) {
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
void multiply_rows(const Product& p, const Operands& in, int64_t row, RowRange outputs, bool first) {
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
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(begin + i);
}

// All rows of x with the rows `outputs` of the weights, which fit in a tile.
void multiply_tile(const Product& p, float* tile, RowRange outputs) {
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

void multiply_many_floats(const Product& p, std::byte* tile, RowRange outputs) {
    // With few rows of x a small tile stays in the L1 cache; with many a large one is used more often.
    const int64_t step = p.x.rows < 8 ? kOutputsAtOnce : kTileOutputs;
    for (int64_t o = outputs.begin; o < outputs.end; o += step)
        multiply_tile(p, reinterpret_cast<float*>(tile), {o, std::min(o + step, outputs.end)});
}

// ---- Few rows

// kLanes weights as f32, and one.
struct WeightsF32 {
    using Element = float;
    static HWY_INLINE VWide load(const float* w) { return hn::LoadU(DWide(), w); }
    static float one(float w) { return w; }
};
struct WeightsF16 {
    using Element = uint16_t;
    static HWY_INLINE VWide load(const uint16_t* w) {
        const hn::Rebind<hwy::float16_t, DWide> d16;
        return hn::PromoteTo(DWide(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(w)));
    }
    static float one(uint16_t w) { return f16_to_f32(w); }
};
struct WeightsBF16 {
    using Element = uint16_t;
    static HWY_INLINE VWide load(const uint16_t* w) {
        const hn::RebindToUnsigned<DWide> d32;
        const hn::Rebind<uint16_t, DWide> d16;
        return hn::BitCast(DWide(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, w))));
    }
    static float one(uint16_t w) { return bf16_to_f32(w); }
};

// Calls body(count, first) until all outputs are done, `count` being an integral constant: outputs are made one after
// the other, and the lanes of the sums of so many, for kRows rows each, are added up together.
template <int kRows, class Body>
void for_each_group(RowRange outputs, const Body& body) {
    constexpr int kGroup = std::max(4 / kRows, 1);
    int64_t o = outputs.begin;
    for (; o + kGroup <= outputs.end; o += kGroup) body(std::integral_constant<int, kGroup>(), o);
    for (; o < outputs.end; ++o) body(std::integral_constant<int, 1>(), o);
}

// total[m] = w . x[m], in lanes, added up in the order in which many rows are. Returns where the whole vectors end.
template <class Weights, int kRows>
HWY_INLINE int64_t dot_vectors(const typename Weights::Element* w, const float* const (&x)[kRows], int64_t count,
                               VWide (&total)[kRows]) {
    const DWide d;
    constexpr int64_t kStep = hn::MaxLanes(d);
    constexpr int64_t kPiece = std::max<int64_t>(kStep, 128 / sizeof(typename Weights::Element));
    constexpr int64_t kFurther = 3072 / sizeof(typename Weights::Element);  // as many reads under way as four streams
    VWide sums[kRows];
    for (VWide& sum : sums) sum = hn::Zero(d);
    const auto add = [&](int64_t at) HWY_ATTR {
        const VWide weights = Weights::load(w + at);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) sums[m] = hn::MulAdd(weights, hn::LoadU(d, x[m] + at), sums[m]);
    };
    int64_t i = 0;
    for (; i + kPiece <= count; i += kPiece) {
        prefetch_ahead(w + i + kFurther, kPiece * sizeof(*w));
        TANDEM_UNROLL
        for (int64_t at = 0; at < kPiece; at += kStep) add(i + at);
    }
    for (; i + kStep <= count; i += kStep) add(i);
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) total[m] = sums[m];
    return i;
}

// At most kRows rows; where there are fewer, the last is multiplied again.
template <class Weights, int kRows>
void multiply_few_rows(const Product& p, RowRange outputs) {
    const int64_t count = p.weight.cols;
    const float* x[kRows];
    for (int m = 0; m < kRows; ++m) x[m] = p.x.f32(std::min<int64_t>(m, p.x.rows - 1));
    for_each_group<kRows>(outputs, [&](auto grouped, int64_t first) HWY_ATTR {
        const auto row = [&](int64_t o) {
            return reinterpret_cast<const typename Weights::Element*>(p.weight.row(first + o));
        };
        VWide sums[grouped][kRows];
        int64_t done = 0;
        for (int o = 0; o < grouped; ++o) done = dot_vectors<Weights>(row(o), x, count, sums[o]);
        float y[grouped][kRows];
        sum_lanes_of(sums, y);
        for (int o = 0; o < grouped; ++o) {
            const float bias = p.bias != nullptr ? p.bias[first + o] : 0.0F;
            for (int64_t m = 0; m < p.x.rows; ++m) {
                for (int64_t i = done; i < count; ++i) y[o][m] += Weights::one(row(o)[i]) * x[m][i];
                p.out.f32(m)[first + o] = y[o][m] + bias;
            }
        }
    });
}

template <class Weights>
void multiply_few_of(const Product& p, RowRange outputs) {
    if (p.x.rows == 1) {
        multiply_few_rows<Weights, 1>(p, outputs);
    } else if (p.x.rows == 2) {
        multiply_few_rows<Weights, 2>(p, outputs);
    } else {
        multiply_few_rows<Weights, kFewRows>(p, outputs);
    }
}

constexpr LinearKernels f32_kernels(void (*multiply_few)(const Product&, RowRange)) {
    return {.tile_outputs = kTileOutputs,
            .tile_bytes = kTileOutputs * kTileStride * sizeof(float),
            .quantize = nullptr,
            .multiply_few = multiply_few,
            .multiply_many = multiply_many_floats};
}

// Blocks are always decoded.
const LinearKernels* f32_kernels_for(DType weight) {
    static constexpr LinearKernels kF32 = f32_kernels(multiply_few_of<WeightsF32>);
    static constexpr LinearKernels kF16 = f32_kernels(multiply_few_of<WeightsF16>);
    static constexpr LinearKernels kBF16 = f32_kernels(multiply_few_of<WeightsBF16>);
    static constexpr LinearKernels kBlocks = f32_kernels(nullptr);
    switch (weight) {
        case DType::f32:
            return &kF32;
        case DType::f16:
            return &kF16;
        case DType::bf16:
            return &kBF16;
        case DType::i32:
            return nullptr;
        default:
            return &kBlocks;
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(f32_kernels_for);

}  // namespace

const LinearKernels* find_f32_kernels(DType weight) {
    return HWY_DYNAMIC_DISPATCH(f32_kernels_for)(weight);
}

}  // namespace tandem::cpu::simd
#endif
