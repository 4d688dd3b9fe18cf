// Products of many rows of x: tiles of weights are unpacked into the order of the arithmetic, so that a vector holds as
// many rows of weights as it has lanes and the sums need no reduction; each tile is then used for all rows of x while
// it lies in the cache. For the current SIMD target.
#if defined(TANDEM_CPU_SIMD_INT8_MANY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_INT8_MANY_INL_H_
#undef TANDEM_CPU_SIMD_INT8_MANY_INL_H_
#else
#define TANDEM_CPU_SIMD_INT8_MANY_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "cpu/simd/int8_weights-inl.h"
#include "cpu/simd/linear.h"
#include "cpu/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

inline constexpr int kTilePanels = 4;
inline constexpr int kTileElements = 2048;
inline constexpr int kTileOutputs = kTilePanels * kLanes;  // a panel is as many rows of weights as there are lanes
// 64 outputs take 128 KiB, and their scales and minima 64 at most: a tile stays in the L2 cache.
inline constexpr size_t kTileBytes = size_t{kTileOutputs} * (kTileElements + 2 * (kTileElements / 16) * sizeof(float));
#if HWY_CAP_GE512
inline constexpr int kPanelsAtOnce = 2;  // 32 registers: 12 sums of integers, 12 of floats
inline constexpr int kRowsAtOnce = 6;
#else
inline constexpr int kPanelsAtOnce = 1;  // 16 registers: 4 and 4
inline constexpr int kRowsAtOnce = 4;
#endif

// A panel: bytes [element / 4][lane][4], four neighbouring elements of each row of weights side by side, and scales and
// minima [run][lane].
struct Panel {
    uint8_t* q;
    float* scales;
    float* minima;
};

template <class Weights>
HWY_INLINE Panel panel_of(std::byte* tile, int index) {
    constexpr size_t kQuants = size_t{kTileElements} * kLanes;
    constexpr size_t kScales = size_t{kTileElements / Weights::kRun} * kLanes;
    auto* scales = reinterpret_cast<float*>(tile + kTilePanels * kQuants);
    return {reinterpret_cast<uint8_t*>(tile) + static_cast<size_t>(index) * kQuants,
            scales + static_cast<size_t>(index) * kScales, scales + static_cast<size_t>(index + kTilePanels) * kScales};
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

// The blocks of the rows of a panel, one row in each lane.
template <class Weights>
using PanelRows = const typename Weights::Block* [kLanes];

// Unpacks the scales of a chunk, of which `count` blocks are there, as runs from `run` on.
template <class Weights>
HWY_INLINE void pack_scales(const PanelRows<Weights>& rows, int count, int run, const Panel& panel) {
    const DF32 d;
    const int runs = count * Weights::kRuns / Weights::kBlocks;
    TANDEM_UNROLL
    for (int i = 0; i < kScaleVectors<Weights>; ++i) {
        VU32 scales[kLanes];
        VU32 minima[kLanes];
        TANDEM_UNROLL
        for (int lane = 0; lane < kLanes; ++lane) {
            const ScalesOf<Weights> of_row = Weights::scales(rows[lane], count);
            scales[lane] = hn::BitCast(DU32(), of_row.scale[i]);
            minima[lane] = hn::BitCast(DU32(), of_row.minimum[i]);
        }
        const size_t to = static_cast<size_t>(run + i * kLanes) * kLanes;
        transpose(scales);
        for (int j = 0; j < std::min(runs - i * kLanes, kLanes); ++j)
            hn::Store(hn::BitCast(d, scales[j]), d, panel.scales + to + j * kLanes);
        if constexpr (Weights::kMinimum && kMinimaFollow<Weights>) {
            for (int j = 0; j < runs; ++j)
                hn::Store(hn::Neg(hn::BitCast(d, scales[runs + j])), d, panel.minima + to + j * kLanes);
        } else if constexpr (Weights::kMinimum) {
            transpose(minima);
            for (int j = 0; j < std::min(runs - i * kLanes, kLanes); ++j)
                hn::Store(hn::BitCast(d, minima[j]), d, panel.minima + to + j * kLanes);
        }
    }
}

// Vectors that a block of each row is loaded with; or their share of one.
template <class Weights>
struct PackShape {
    static constexpr int kElements = Weights::kRun * Weights::kRuns / Weights::kBlocks;  // of a block
    static constexpr int kVectorElements = kBytes * (Weights::kPacked > 0 ? 2 : 1);
    static constexpr int kVectorBlocks = std::max(kVectorElements / kElements, 1);
};

// Unpacks vector v of a chunk, which begins at `to`. Elements change places while there are two in a byte.
template <class Weights>
HWY_INLINE void pack_vector(const PanelRows<Weights>& rows, int v, uint8_t* to) {
    VU32 bytes[kLanes];
    TANDEM_UNROLL
    for (int lane = 0; lane < kLanes; ++lane) {
        if constexpr (Weights::kPacked > 0) {
            bytes[lane] = hn::BitCast(DU32(), Weights::load_packed(rows[lane], v));
        } else {
            bytes[lane] = hn::BitCast(DU32(), Weights::load(rows[lane], v));
        }
    }
    transpose(bytes);
    TANDEM_UNROLL
    for (int j = 0; j < kLanes; ++j) {
        const int word = v * kLanes + j;
        if constexpr (Weights::kPacked > 0) {
            constexpr int kPacked = Weights::kPacked;
            uint8_t* first = to + static_cast<size_t>(word / kPacked * 2 * kPacked + word % kPacked) * kBytes;
            const BytePair both = Weights::split(hn::BitCast(DU8(), bytes[j]));
            hn::StoreU(both.first, DU8(), first);
            hn::StoreU(both.second, DU8(), first + kPacked * kBytes);
        } else {
            hn::StoreU(hn::BitCast(DU8(), bytes[j]), DU8(), to + static_cast<size_t>(word) * kBytes);
        }
    }
}

// The bytes of a tile that is still to come, brought into the second-level cache while this one is worked on: some rows
// of weights, a piece of each.
struct ComingTile {
    const std::byte* row = nullptr;
    size_t stride = 0;  // from one to the next
    size_t bytes = 0;   // of the piece
    int64_t rows = 0;
    size_t done = 0;  // of this row's

    HWY_INLINE void prefetch_lines(int count) {
        for (int i = 0; i < count && rows > 0; ++i) {
            __builtin_prefetch(row + done, 0, 2);
            done += 64;
            if (done < bytes) continue;
            done = 0;
            row += stride;
            --rows;
        }
    }
};

// Unpacks `blocks` blocks of each row of weights of a panel.
template <class Weights>
void pack_panel(PanelRows<Weights>& rows, int blocks, const Panel& panel, ComingTile& coming) {
    using Shape = PackShape<Weights>;
    // Half of what comes; the other half is for the products.
    constexpr auto kVectorLines = static_cast<int>(
        (sizeof(typename Weights::Block) * Shape::kVectorElements * kLanes / Shape::kElements + 127) / 128);
    for (int block = 0; block < blocks; block += Weights::kBlocks) {
        const int count = std::min(blocks - block, Weights::kBlocks);
        uint8_t* to = panel.q + static_cast<size_t>(block) * Shape::kElements * kLanes;
        pack_scales<Weights>(rows, count, block * Shape::kElements / Weights::kRun, panel);
        const int vectors = count * Shape::kElements / Shape::kVectorElements;
        for (int v = 0; v < vectors; ++v) {
            pack_vector<Weights>(rows, v, to);
            coming.prefetch_lines(kVectorLines);
        }
        const int over = count % Shape::kVectorBlocks;
        if (over != 0) {  // blocks where a vector takes more
            typename Weights::Block last[kLanes][Weights::kBlocks] = {};
            PanelRows<Weights> padded;
            for (int lane = 0; lane < kLanes; ++lane) {
                std::copy_n(rows[lane] + count - over, over, last[lane] + count - over);
                padded[lane] = last[lane];
            }
            pack_vector<Weights>(padded, vectors, to);
        }
        for (int lane = 0; lane < kLanes; ++lane) rows[lane] += count;
    }
}

// What a tile of weights is multiplied with: elements [first, first + count) and outputs from `output` on; and what
// comes meanwhile.
struct TilePlace {
    int64_t first;
    int count;
    int64_t output;
    ComingTile* coming;
};

// y[m][lanes of the panels] += products of kRows rows of x with the panels' rows over the elements of a tile
template <class Weights, int kRows>
HWY_INLINE void multiply_panels(const Panel* panels, const QuantizedRow* x, const TilePlace& at,
                                VF32 (&y)[kRows][kPanelsAtOnce]) {
    constexpr int kSteps = Weights::kRun / 4;
    // Of what comes while the first rows are multiplied with all panels: half of it.
    constexpr auto kRunLines = static_cast<int>(sizeof(typename Weights::Block) * Weights::kRun * kLanes *
                                                    kPanelsAtOnce / PackShape<Weights>::kElements / 128 +
                                                1);
    const int64_t first = at.first / Weights::kRun;
    const int count = at.count / Weights::kRun;
    const DI32 d32;
    const DF32 d;
    for (int r = 0; r < count; ++r) {
        at.coming->prefetch_lines(kRunLines);
        VI32 products[kRows][kPanelsAtOnce];
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            constexpr bool kCorrected = Weights::kOffset > 0 && !Weights::kMinimum;
            const VI32 start = kCorrected ? hn::Set(d32, x[m].corrections[first + r]) : hn::Zero(d32);
            TANDEM_UNROLL
            for (int n = 0; n < kPanelsAtOnce; ++n) products[m][n] = start;
        }
        for (int j = 0; j < kSteps; ++j) {
            VU8 w[kPanelsAtOnce];
            TANDEM_UNROLL
            for (int n = 0; n < kPanelsAtOnce; ++n)
                w[n] = hn::Load(DU8(), panels[n].q + static_cast<size_t>(r * kSteps + j) * kBytes);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                int32_t four = 0;
                std::memcpy(&four, x[m].q + (first + r) * Weights::kRun + 4 * j, 4);
                const VI8 x4 = hn::BitCast(DI8(), hn::Set(d32, four));
                TANDEM_UNROLL
                for (int n = 0; n < kPanelsAtOnce; ++n)
                    products[m][n] = dot4<Weights::kOffset>(products[m][n], w[n], x4);
            }
        }
        TANDEM_UNROLL
        for (int n = 0; n < kPanelsAtOnce; ++n) {
            const VF32 w_scale = hn::Load(d, panels[n].scales + r * kLanes);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                const VF32 scale = hn::Mul(w_scale, hn::Set(d, x[m].scales[first + r]));
                y[m][n] = hn::MulAdd(hn::ConvertTo(d, products[m][n]), scale, y[m][n]);
                if constexpr (Weights::kMinimum) {
                    const VF32 minimum = hn::Load(d, panels[n].minima + r * kLanes);
                    y[m][n] = hn::MulAdd(minimum, hn::Set(d, x[m].sums[first + r]), y[m][n]);
                }
            }
        }
    }
}

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
void multiply_tile_rows(const Product& p, const Panel* panels, const TilePlace& at, int64_t row) {
    const DF32 d;
    QuantizedRow x[kRows];
    VF32 y[kRows][kPanelsAtOnce];
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        x[m] = p.rounded.row(row + m);
        TANDEM_UNROLL
        for (int n = 0; n < kPanelsAtOnce; ++n) y[m][n] = hn::Zero(d);
    }
    multiply_panels<Weights, kRows>(panels, x, at, y);
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
void multiply_tile(const Product& p, std::byte* tile, const TilePlace& at) {
    constexpr int kElements = Weights::kRun * Weights::kRuns / Weights::kBlocks;  // of a block
    const int outputs = static_cast<int>(std::min<int64_t>(p.out.cols - at.output, kTileOutputs));
    for (int o = 0; o < outputs; o += kLanes) {
        PanelRows<Weights> rows;
        for (int lane = 0; lane < kLanes; ++lane) {  // lanes past the last output repeat it
            const std::byte* row = p.weight.row(at.output + std::min(o + lane, outputs - 1));
            rows[lane] = reinterpret_cast<const typename Weights::Block*>(row) + at.first / kElements;
        }
        pack_panel<Weights>(rows, at.count / kElements, panel_of<Weights>(tile, o / kLanes), *at.coming);
    }
    for (int64_t row = 0; row < p.x.rows;) {
        const int64_t left = p.x.rows - row;
        for (int n = 0; n * kLanes < outputs; n += kPanelsAtOnce) {
            Panel panels[kPanelsAtOnce];
            for (int i = 0; i < kPanelsAtOnce; ++i) panels[i] = panel_of<Weights>(tile, n + i);
            const TilePlace here{at.first, at.count, at.output + n * kLanes, at.coming};
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

// Some outputs, whole tiles of them but for the last, for all rows.
template <class Weights>
void multiply_many(const Product& p, std::byte* tile, RowRange outputs) {
    const int64_t pieces =
        (p.weight.cols + kTileElements - 1) / kTileElements;  // of a row, about as long as each other
    const int64_t piece = ((p.weight.cols + pieces - 1) / pieces + 255) / 256 * 256;
    const size_t stride = row_bytes(p.weight.dtype, p.weight.cols);
    TilePlace at{0, static_cast<int>(std::min(piece, p.weight.cols)), outputs.begin, nullptr};
    while (at.output < outputs.end) {
        TilePlace next{at.first + at.count, 0, at.output, nullptr};
        if (next.first == p.weight.cols) next = {0, 0, at.output + kTileOutputs, nullptr};
        next.count = static_cast<int>(std::min(p.weight.cols - next.first, piece));
        ComingTile coming;
        if (next.output < outputs.end) {
            coming = {.row = p.weight.row(next.output) + row_bytes(p.weight.dtype, next.first),
                      .stride = stride,
                      .bytes = row_bytes(p.weight.dtype, next.count),
                      .rows = std::min<int64_t>(outputs.end - next.output, kTileOutputs)};
        }
        at.coming = &coming;
        multiply_tile<Weights>(p, tile, at);
        at = next;
    }
}

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
