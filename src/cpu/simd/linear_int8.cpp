// Linear for q4_0 and q8_0 weights. Each row of x is rounded to 8 bits in blocks of 32 with a scale of their own, so
// that a block of products is a sum of integers, multiplied with both scales at the end.
//
// A few rows of x: each row of weights is read once, as fast as memory gives it. Many rows: tiles of weights are
// unpacked into the order of the arithmetic, so that a vector holds as many rows of weights as it has lanes and the
// sums need no reduction; each tile is then used for all rows of x while it lies in the cache.
#define HWY_WANT_AVX3_DL  // for its 8-bit dot product

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/linear_int8.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/simd/int8_dot-inl.h"
#include "cpu/simd/linear_int8.h"
#include "cpu/simd/unroll.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// ---- Rounding x

// d = max|x| / 127, q = x / d. `corrections` gets what takes the weights' offset off again: -offset times the sum of q.
void quantize_row(const float* x, const QuantizedRow& row, int64_t cols, int offset) {
    const DF32 d;
    const hn::Rebind<int8_t, DF32> d8;
    const hn::Rebind<int16_t, DF32> d16;
    const DI32 d32;
    for (int64_t b = 0; b < cols / kBlock; ++b) {
        const float* in = x + b * kBlock;
        VF32 largest = hn::Zero(d);
        for (int i = 0; i < kBlock; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, in + i)));
        const float scale = hn::GetLane(hn::MaxOfLanes(d, largest)) / 127.0F;
        const VF32 inverse = hn::Set(d, scale > 0.0F ? 1.0F / scale : 0.0F);
        VI32 sum = hn::Zero(d32);
        for (int i = 0; i < kBlock; i += kLanes) {
            const VI32 rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, in + i), inverse));
            sum = hn::Add(sum, rounded);
            hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, rounded)), d8, row.q + b * kBlock + i);
        }
        row.scales[b] = scale;
        row.corrections[b] = -offset * hn::GetLane(hn::SumOfLanes(d32, sum));
    }
}

inline constexpr int kCorrectionLanes = kLanes < 8 ? kLanes : 8;

// The same corrections, spread over the lanes of the vector in which dot4() sums the products of a block.
template <int kOffset>
void spread_corrections(const QuantizedRow& row, int64_t cols) {
    const VU8 offset = hn::Set(DU8(), static_cast<uint8_t>(kOffset));
    for (int64_t b = 0; b < cols / kBlock; b += kBlocksPerVector) {
        VI32 sum = hn::Zero(DI32());
        for (int i = 0; i < kVectorsPerBlock; ++i)
            sum = dot4<kOffset>(sum, offset, hn::LoadU(DI8(), row.q + b * kBlock + i * 4 * kLanes));
        hn::StoreU(hn::Neg(sum), DI32(), row.corrections + b * kCorrectionLanes);
    }
}

// ---- A few rows of x

inline constexpr int kChunk = 16;  // blocks whose scales are converted at once

// The weights of kOutputs outputs, at the same block of each. One row of x takes several: memory is read at as many
// places at once, which is faster than at one.
template <class Weights, int kOutputs>
struct WeightRows {
    const typename Weights::Block* row[kOutputs];
    int64_t stride_blocks;  // from one row to the next

    WeightRows at(int64_t block) const {
        WeightRows moved = *this;
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) moved.row[o] += block;
        return moved;
    }

    // Asks memory for the same `count` blocks of the outputs that come after these.
    void prefetch_next(int count) const {
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) {
            const auto* begin = reinterpret_cast<const char*>(row[o] + kOutputs * stride_blocks);
            for (size_t at = 0; at < static_cast<size_t>(count) * sizeof(*row[o]); at += 64) hwy::Prefetch(begin + at);
        }
    }
};

// scales[o][m][b] = scale of block b of weight row o times that of block b of row m.
template <class Weights, int kOutputs, int kRows>
HWY_INLINE void join_scales(const WeightRows<Weights, kOutputs>& w, int count, const QuantizedRow* x, int64_t first,
                            float (&scales)[kOutputs][kRows][kChunk]) {
    const DF32 d;
    const hn::Rebind<hwy::float16_t, DF32> d16;
    TANDEM_UNROLL
    for (int o = 0; o < kOutputs; ++o) {
        alignas(64) uint16_t halves[kChunk] = {};
        if (count == kChunk) {
            TANDEM_UNROLL
            for (int b = 0; b < kChunk; ++b) halves[b] = w.row[o][b].d;
        } else {
            for (int b = 0; b < count; ++b) halves[b] = w.row[o][b].d;
        }
        for (int b = 0; b < count; b += kLanes) {
            const VF32 scale = hn::PromoteTo(d, hn::Load(d16, reinterpret_cast<const hwy::float16_t*>(halves) + b));
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m)
                hn::StoreU(hn::Mul(scale, hn::LoadU(d, x[m].scales + first + b)), d, scales[o][m] + b);
        }
    }
}

// The scales of the one or two blocks at b of a chunk, in the lanes of these blocks.
HWY_INLINE VF32 spread_scales(const float (&scales)[kChunk], int b) {
#if HWY_CAP_GE512
    static_assert(kChunk == kLanes);
    alignas(64) static constexpr int32_t kLanesOf[kChunk / 2][kLanes] = {
        {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
        {2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3},
        {4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5},
        {6, 6, 6, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7},
        {8, 8, 8, 8, 8, 8, 8, 8, 9, 9, 9, 9, 9, 9, 9, 9},
        {10, 10, 10, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 11, 11},
        {12, 12, 12, 12, 12, 12, 12, 12, 13, 13, 13, 13, 13, 13, 13, 13},
        {14, 14, 14, 14, 14, 14, 14, 14, 15, 15, 15, 15, 15, 15, 15, 15}};
    const DF32 d;
    return hn::TableLookupLanes(hn::Load(d, scales), hn::SetTableIndices(d, kLanesOf[b / 2]));
#else
    return hn::Set(DF32(), scales[b]);
#endif
}

// Adds the products of the one or two blocks at `w` with those at `first` of each row.
template <class Weights, int kOutputs, int kRows>
HWY_INLINE void add_blocks(const WeightRows<Weights, kOutputs>& w, const QuantizedRow* x, int64_t first,
                           const float (&scales)[kOutputs][kRows][kChunk], int b, VF32 (&sums)[kOutputs][kRows]) {
    const DI32 d32;
    const DI8 d8;
    TANDEM_UNROLL
    for (int o = 0; o < kOutputs; ++o) {
        VU8 weights[kVectorsPerBlock];
        TANDEM_UNROLL
        for (int i = 0; i < kVectorsPerBlock; ++i) weights[i] = Weights::load(w.row[o], i);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            VI32 products = hn::Zero(d32);
            if constexpr (Weights::kOffset > 0) products = hn::LoadU(d32, x[m].corrections + first * kCorrectionLanes);
            TANDEM_UNROLL
            for (int i = 0; i < kVectorsPerBlock; ++i) {
                const VI8 eights = hn::LoadU(d8, x[m].q + first * kBlock + i * 4 * kLanes);
                products = dot4<Weights::kOffset>(products, weights[i], eights);
            }
            sums[o][m] = hn::MulAdd(hn::ConvertTo(DF32(), products), spread_scales(scales[o][m], b), sums[o][m]);
        }
    }
}

// y[o][m] = w[o] . x[m] for kRows rows of x
template <class Weights, int kOutputs, int kRows>
HWY_INLINE void dot_rows(const WeightRows<Weights, kOutputs>& w, const QuantizedRow* x, int64_t blocks,
                         float (&y)[kOutputs][kRows]) {
    const DF32 d;
    VF32 sums[kOutputs][kRows];
    for (auto& row : sums)
        for (VF32& sum : row) sum = hn::Zero(d);
    alignas(64) float scales[kOutputs][kRows][kChunk];
    int64_t first = 0;
    for (; first + kChunk <= blocks; first += kChunk) {
        const auto chunk = w.at(first);
        chunk.prefetch_next(kChunk);
        join_scales<Weights>(chunk, kChunk, x, first, scales);
        TANDEM_UNROLL
        for (int b = 0; b < kChunk; b += kBlocksPerVector)
            add_blocks<Weights>(chunk.at(b), x, first + b, scales, b, sums);
    }
    const auto chunk = w.at(first);
    const int rest = static_cast<int>(blocks - first);
    if (rest > 0) {
        chunk.prefetch_next(rest);
        join_scales<Weights>(chunk, rest, x, first, scales);
    }
    // Behind the last block x has no scales: whatever was read there must not become a NaN times 0.
    for (auto& output : scales)
        for (auto& row : output) std::fill(row + rest, row + kChunk, 0.0F);
    int b = 0;
    for (; b + kBlocksPerVector <= rest; b += kBlocksPerVector)
        add_blocks<Weights>(chunk.at(b), x, first + b, scales, b, sums);
    if (b < rest) {  // one block where a vector takes two
        typename Weights::Block last[kOutputs][2] = {};
        auto padded = chunk;
        for (int o = 0; o < kOutputs; ++o) {
            last[o][0] = chunk.row[o][b];
            padded.row[o] = last[o];
        }
        add_blocks<Weights>(padded, x, first + b, scales, b, sums);
    }
    TANDEM_UNROLL
    for (int o = 0; o < kOutputs; ++o) {
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) y[o][m] = hn::GetLane(hn::SumOfLanes(d, sums[o][m]));
    }
}

// The outputs from `output` on.
template <class Weights, int kOutputs, int kRows>
void multiply_outputs(const Int8Product& p, const QuantizedRow* x, int64_t row, int64_t output) {
    const int64_t blocks = p.weight.cols / kBlock;
    WeightRows<Weights, kOutputs> w;
    w.stride_blocks = blocks;
    for (int o = 0; o < kOutputs; ++o)
        w.row[o] = reinterpret_cast<const typename Weights::Block*>(p.weight.row(output + o));
    float y[kOutputs][kRows];
    dot_rows<Weights>(w, x, blocks, y);
    for (int o = 0; o < kOutputs; ++o) {
        const float bias = p.bias != nullptr ? p.bias[output + o] : 0.0F;
        for (int m = 0; m < kRows; ++m) p.out.f32(row + m)[output + o] = y[o][m] + bias;
    }
}

template <class Weights, int kRows>
void multiply_group(const Int8Product& p, const QuantizedRow* x, int64_t row, RowRange outputs) {
    constexpr int kOutputs = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
    int64_t o = outputs.begin;
    for (; o + kOutputs <= outputs.end; o += kOutputs) multiply_outputs<Weights, kOutputs, kRows>(p, x, row, o);
    for (; o < outputs.end; ++o) multiply_outputs<Weights, 1, kRows>(p, x, row, o);
}

// Some outputs of all rows, four rows of x at a time.
template <class Weights>
void multiply_few(const Int8Product& p, RowRange outputs) {
    QuantizedRow x[4];
    for (int64_t row = 0; row < p.rows;) {
        const int64_t count = std::min<int64_t>(p.rows - row, 4);
        for (int64_t m = 0; m < count; ++m) x[m] = p.x.row(row + m);
        if (count == 1) multiply_group<Weights, 1>(p, x, row, outputs);
        if (count == 2) multiply_group<Weights, 2>(p, x, row, outputs);
        if (count == 3) multiply_group<Weights, 3>(p, x, row, outputs);
        if (count == 4) multiply_group<Weights, 4>(p, x, row, outputs);
        row += count;
    }
}

// ---- Many rows of x

inline constexpr int kTileOutputs = kTilePanels * kLanes;  // a panel is as many rows of weights as there are lanes
#if HWY_CAP_GE512
inline constexpr int kPanelsAtOnce = 2;  // 32 registers: 12 sums of integers, 12 of floats
inline constexpr int kRowsAtOnce = 6;
#else
inline constexpr int kPanelsAtOnce = 1;  // 16 registers: 4 and 4
inline constexpr int kRowsAtOnce = 4;
#endif

// A panel: bytes [block][8][lane][4], four neighbouring elements of each row of weights side by side, and scales
// [block][lane].
struct Panel {
    uint8_t* q;
    float* scales;
};

HWY_INLINE Panel panel_of(std::byte* tile, int index) {
    constexpr size_t kBytes = static_cast<size_t>(kLanes) * kTileBlocks * kBlock;
    return {reinterpret_cast<uint8_t*>(tile) + static_cast<size_t>(index) * kBytes,
            reinterpret_cast<float*>(tile + kTilePanels * kBytes) + static_cast<size_t>(index) * kLanes * kTileBlocks};
}

using DU32 = hn::ScalableTag<uint32_t>;
using VU32 = hn::Vec<DU32>;

// Lane i of vector j becomes lane j of vector i.
HWY_INLINE void transpose(VU32 (&v)[kLanes]) {
    const DU32 d;
    const hn::RepartitionToWide<DU32> d64;
    TANDEM_UNROLL
    for (int g = 0; g < kLanes; g += 4) {  // four by four in every 128 bits
        const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, v[g], v[g + 1]));
        const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, v[g], v[g + 1]));
        const auto cd_low = hn::BitCast(d64, hn::InterleaveLower(d, v[g + 2], v[g + 3]));
        const auto cd_high = hn::BitCast(d64, hn::InterleaveUpper(d, v[g + 2], v[g + 3]));
        v[g] = hn::BitCast(d, hn::InterleaveLower(d64, ab_low, cd_low));
        v[g + 1] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_low, cd_low));
        v[g + 2] = hn::BitCast(d, hn::InterleaveLower(d64, ab_high, cd_high));
        v[g + 3] = hn::BitCast(d, hn::InterleaveUpper(d64, ab_high, cd_high));
    }
#if HWY_CAP_GE512
    TANDEM_UNROLL
    for (int j = 0; j < 4; ++j) {  // then blocks of 128 bits, four by four
        const __m512i ab_low = _mm512_shuffle_i32x4(v[j].raw, v[j + 4].raw, 0x44);
        const __m512i ab_high = _mm512_shuffle_i32x4(v[j].raw, v[j + 4].raw, 0xee);
        const __m512i cd_low = _mm512_shuffle_i32x4(v[j + 8].raw, v[j + 12].raw, 0x44);
        const __m512i cd_high = _mm512_shuffle_i32x4(v[j + 8].raw, v[j + 12].raw, 0xee);
        v[j].raw = _mm512_shuffle_i32x4(ab_low, cd_low, 0x88);
        v[j + 4].raw = _mm512_shuffle_i32x4(ab_low, cd_low, 0xdd);
        v[j + 8].raw = _mm512_shuffle_i32x4(ab_high, cd_high, 0x88);
        v[j + 12].raw = _mm512_shuffle_i32x4(ab_high, cd_high, 0xdd);
    }
#elif HWY_CAP_GE256
    TANDEM_UNROLL
    for (int j = 0; j < 4; ++j) {
        const VU32 low = hn::ConcatLowerLower(d, v[j + 4], v[j]);
        v[j + 4] = hn::ConcatUpperUpper(d, v[j + 4], v[j]);
        v[j] = low;
    }
#endif
}

// Unpacks `count` blocks of each row of weights of a panel.
template <class Weights>
void pack_panel(const typename Weights::Block* const (&rows)[kLanes], int count, const Panel& panel) {
    using Block = typename Weights::Block;
    const DF32 d;
    const hn::Rebind<hwy::float16_t, DF32> d16;
    for (int b = 0; b < count; ++b) {
        alignas(64) uint16_t halves[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) halves[lane] = rows[lane][b].d;
        const auto scales = hn::PromoteTo(d, hn::Load(d16, reinterpret_cast<const hwy::float16_t*>(halves)));
        hn::Store(scales, d, panel.scales + b * kLanes);
    }
    for (int b = 0; b < count; b += kBlocksPerVector) {
        const Block* from[kLanes];
        Block padded[kLanes][2];
        for (int lane = 0; lane < kLanes; ++lane) from[lane] = rows[lane] + b;
        if (b + kBlocksPerVector > count) {  // one block where a vector takes two
            for (int lane = 0; lane < kLanes; ++lane) {
                padded[lane][0] = *from[lane];
                padded[lane][1] = {};
                from[lane] = padded[lane];
            }
        }
        TANDEM_UNROLL
        for (int i = 0; i < kVectorsPerBlock; ++i) {
            VU32 v[kLanes];
            TANDEM_UNROLL
            for (int lane = 0; lane < kLanes; ++lane) v[lane] = hn::BitCast(DU32(), Weights::load(from[lane], i));
            transpose(v);
            uint8_t* to = panel.q + static_cast<size_t>(b * 8 + i * kLanes) * kLanes * 4;
            TANDEM_UNROLL
            for (int j = 0; j < kLanes; ++j) hn::StoreU(hn::BitCast(DU8(), v[j]), DU8(), to + j * kLanes * 4);
        }
    }
}

// y[m][lanes of the panels] += products of kRows rows of x with the panels' rows over blocks [first, first + count)
template <class Weights, int kRows>
HWY_INLINE void multiply_panels(const Panel* panels, const QuantizedRow* x, int64_t first, int count,
                                VF32 (&y)[kRows][kPanelsAtOnce]) {
    const DI32 d32;
    const DF32 d;
    for (int b = 0; b < count; ++b) {
        VI32 products[kRows][kPanelsAtOnce];
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            const VI32 start = Weights::kOffset > 0 ? hn::Set(d32, x[m].corrections[first + b]) : hn::Zero(d32);
            TANDEM_UNROLL
            for (int n = 0; n < kPanelsAtOnce; ++n) products[m][n] = start;
        }
        for (int j = 0; j < 8; ++j) {
            VU8 w[kPanelsAtOnce];
            TANDEM_UNROLL
            for (int n = 0; n < kPanelsAtOnce; ++n)
                w[n] = hn::Load(DU8(), panels[n].q + static_cast<size_t>((b * 8 + j) * kLanes) * 4);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                int32_t four = 0;
                std::memcpy(&four, x[m].q + (first + b) * kBlock + 4 * j, 4);
                const VI8 x4 = hn::BitCast(DI8(), hn::Set(d32, four));
                TANDEM_UNROLL
                for (int n = 0; n < kPanelsAtOnce; ++n)
                    products[m][n] = dot4<Weights::kOffset>(products[m][n], w[n], x4);
            }
        }
        TANDEM_UNROLL
        for (int n = 0; n < kPanelsAtOnce; ++n) {
            const VF32 w_scale = hn::Load(d, panels[n].scales + b * kLanes);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                const VF32 scale = hn::Mul(w_scale, hn::Set(d, x[m].scales[first + b]));
                y[m][n] = hn::MulAdd(hn::ConvertTo(d, products[m][n]), scale, y[m][n]);
            }
        }
    }
}

// What a tile of weights is multiplied with: blocks [first, first + count) and outputs from `output` on.
struct TilePlace {
    int64_t first;
    int count;
    int64_t output;
};

// to[i] = sums[i] + before[i] for the first `count` lanes; `before` may be null.
HWY_INLINE void store_sums(VF32 sums, const float* before, int64_t count, float* to) {
    const DF32 d;
    if (count >= kLanes) {
        hn::StoreU(before == nullptr ? sums : hn::Add(sums, hn::LoadU(d, before)), d, to);
        return;
    }
    alignas(64) float lanes[kLanes];
    hn::Store(sums, d, lanes);
    for (int64_t i = 0; i < count; ++i) to[i] = lanes[i] + (before == nullptr ? 0.0F : before[i]);
}

// The products of one group of rows with kPanelsAtOnce panels, stored or added to what earlier blocks gave.
template <class Weights, int kRows>
void multiply_tile_rows(const Int8Product& p, const Panel* panels, const TilePlace& at, int64_t row) {
    const DF32 d;
    QuantizedRow x[kRows];
    VF32 y[kRows][kPanelsAtOnce];
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        x[m] = p.x.row(row + m);
        TANDEM_UNROLL
        for (int n = 0; n < kPanelsAtOnce; ++n) y[m][n] = hn::Zero(d);
    }
    multiply_panels<Weights, kRows>(panels, x, at.first, at.count, y);
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        TANDEM_UNROLL
        for (int n = 0; n < kPanelsAtOnce; ++n) {
            const int64_t output = at.output + n * kLanes;
            float* to = p.out.f32(row + m) + output;
            const float* before = at.first > 0 ? to : p.bias == nullptr ? nullptr : p.bias + output;
            store_sums(y[m][n], before, p.out.cols - output, to);
        }
    }
}

template <class Weights>
void multiply_tile(const Int8Product& p, std::byte* tile, const TilePlace& at) {
    const int outputs = static_cast<int>(std::min<int64_t>(p.out.cols - at.output, kTileOutputs));
    for (int o = 0; o < outputs; o += kLanes) {
        const typename Weights::Block* rows[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {  // lanes past the last output repeat it
            const std::byte* row = p.weight.row(at.output + std::min(o + lane, outputs - 1));
            rows[lane] = reinterpret_cast<const typename Weights::Block*>(row) + at.first;
        }
        pack_panel<Weights>(rows, at.count, panel_of(tile, o / kLanes));
    }
    for (int64_t row = 0; row < p.rows;) {
        const int64_t left = p.rows - row;
        for (int n = 0; n * kLanes < outputs; n += kPanelsAtOnce) {
            Panel panels[kPanelsAtOnce];
            for (int i = 0; i < kPanelsAtOnce; ++i) panels[i] = panel_of(tile, n + i);
            const TilePlace here{at.first, at.count, at.output + n * kLanes};
            if (left >= kRowsAtOnce) {
                multiply_tile_rows<Weights, kRowsAtOnce>(p, panels, here, row);
            } else if (left >= 2) {
                multiply_tile_rows<Weights, 2>(p, panels, here, row);
            } else {
                multiply_tile_rows<Weights, 1>(p, panels, here, row);
            }
        }
        row += left >= kRowsAtOnce ? kRowsAtOnce : std::min<int64_t>(left, 2);
    }
}

// Some tiles of outputs, for all rows.
template <class Weights>
void multiply_many(const Int8Product& p, std::byte* tile, RowRange tiles) {
    const int64_t blocks = p.weight.cols / kBlock;
    for (int64_t t = tiles.begin; t < tiles.end; ++t) {
        for (int64_t first = 0; first < blocks; first += kTileBlocks) {
            const auto count = static_cast<int>(std::min<int64_t>(blocks - first, kTileBlocks));
            multiply_tile<Weights>(p, tile, {first, count, t * kTileOutputs});
        }
    }
}

template <class Weights>
void quantize(const Input& x, bool many, const QuantizedRows& rows, RowRange range) {
    for (int64_t r = range.begin; r < range.end; ++r) {
        quantize_row(x.f32(r), rows.row(r), x.cols, Weights::kOffset);
        if constexpr (Weights::kOffset > 0) {
            if (!many) spread_corrections<Weights::kOffset>(rows.row(r), x.cols);
        }
    }
}

template <class Weights>
inline constexpr Int8Kernels kKernels = {.tile_outputs = kTileOutputs,
                                         .quantize = quantize<Weights>,
                                         .multiply_few = multiply_few<Weights>,
                                         .multiply_many = multiply_many<Weights>};

const Int8Kernels* kernels_for(DType weight) {
    if (weight == DType::q4_0) return &kKernels<WeightsQ4_0>;
    if (weight == DType::q8_0) return &kKernels<WeightsQ8_0>;
    return nullptr;
}

#else  // one lane is less than four bytes: left to the reference

const Int8Kernels* kernels_for(DType /*weight*/) {
    return nullptr;
}

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(kernels_for);

constexpr int64_t kManyRows = 5;  // from here on it pays to unpack tiles

bool supports(const op::Linear& /*op*/, graph::InputTypes inputs) {
    return HWY_DYNAMIC_DISPATCH(kernels_for)(inputs[0].dtype) != nullptr;
}

size_t scratch_bytes(const op::Linear& /*op*/, const NodePlan& plan) {
    const int64_t rows = plan.inputs[1].rows(plan.limits);
    return QuantizedRows::size_bytes(rows, plan.inputs[1].cols()) + static_cast<size_t>(plan.threads) * kTileBytes;
}

void linear(const op::Linear& /*op*/, const Args& args) {
    const Input& weight = args.in[0];
    const Input& x = args.in[1];
    const Int8Kernels& kernels = *HWY_DYNAMIC_DISPATCH(kernels_for)(weight.dtype);
    const bool many = x.rows >= kManyRows;
    const QuantizedRows rows(args.step.scratch.data(), x.cols);
    args.step.for_each_range(x.rows, std::max<int64_t>(1, 16384 / x.cols), [&](int64_t begin, int64_t end, int) {
        kernels.quantize(x, many, rows, {begin, end});
    });

    const Int8Product product{.weight = weight,
                              .x = rows,
                              .rows = x.rows,
                              .bias = args.in.size() > 2 ? args.in[2].f32() : nullptr,
                              .out = args.out};
    if (many) {
        std::byte* scratch = args.step.scratch.data() + QuantizedRows::size_bytes(x.rows, x.cols);
        const int64_t tiles = (weight.rows + kernels.tile_outputs - 1) / kernels.tile_outputs;
        args.step.for_each_range(tiles, 1, [&](int64_t begin, int64_t end, int thread) {
            kernels.multiply_many(product, scratch + static_cast<size_t>(thread) * kTileBytes, {begin, end});
        });
    } else {
        const int64_t grain = kPieceBytes / static_cast<int64_t>(row_bytes(weight.dtype, weight.cols)) + 1;
        args.step.for_each_range(weight.rows, grain, [&](int64_t begin, int64_t end, int) {
            kernels.multiply_few(product, {begin, end});
        });
    }
}

const Registration<op::Linear> kInt8{FastKernel<op::Linear>{linear, supports, scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
