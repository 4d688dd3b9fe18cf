// Products of one to four rows of x with weights that are read once, as fast as memory gives them, for the current SIMD
// target.
#if defined(TANDEM_CPU_SIMD_INT8_FEW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_CPU_SIMD_INT8_FEW_INL_H_
#undef TANDEM_CPU_SIMD_INT8_FEW_INL_H_
#else
#define TANDEM_CPU_SIMD_INT8_FEW_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "cpu/simd/int8_weights-inl.h"
#include "cpu/simd/linear.h"
#include "cpu/simd/streams.h"
#include "cpu/simd/sum_lanes-inl.h"
#include "cpu/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Sums of products in a chunk, each a vector of lanes, and the run that a lane belongs to.
template <class Weights>
inline constexpr int kLaneElements = Weights::kPaired ? 8 : 4;  // elements that one lane sums up

template <class Weights>
inline constexpr int kVectors = Weights::kRuns* Weights::kRun / (kLaneElements<Weights> * kLanes);

// Which lane of the scales belongs to a lane of the products of vector v.
template <class Weights>
struct SpreadLanes {
    alignas(64) int32_t of[kVectors<Weights>][kLanes];

    constexpr SpreadLanes() : of() {
        for (int v = 0; v < kVectors<Weights>; ++v)
            for (int lane = 0; lane < kLanes; ++lane) of[v][lane] = run(v, lane) % kLanes;
    }
    static constexpr int run(int v, int lane) {
        if (Weights::kAlternate) return v / 2 * 4 + v % 2 + lane / 8 * 2;
        return (v * kLanes + lane) * kLaneElements<Weights> / Weights::kRun;
    }
};

// The scales of the runs in vector v of a chunk, in the lanes of these runs.
template <class Weights>
HWY_INLINE VF32 spread_scales(const VF32 (&scales)[kScaleVectors<Weights>], int v) {
    const DF32 d;
    static constexpr SpreadLanes<Weights> kLanesOf;
    // Where there is one vector, it is not found by a number: that would keep it from staying in a register.
    const VF32 from = scales[kScaleVectors<Weights> == 1 ? 0 : SpreadLanes<Weights>::run(v, 0) / kLanes];
    return hn::TableLookupLanes(from, hn::SetTableIndices(d, kLanesOf.of[v]));
}

// The weights of kOutputs outputs, at the same chunk of each.
template <class Weights, int kOutputs>
struct WeightRows {
    const typename Weights::Block* row[kOutputs];

    HWY_INLINE WeightRows at(int64_t block) const {
        WeightRows moved = *this;
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) moved.row[o] += block;
        return moved;
    }

    template <size_t kAhead = 1024>
    HWY_INLINE void prefetch(int blocks) const {
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o)
            prefetch_ahead<kAhead>(row[o], static_cast<size_t>(blocks) * sizeof(*row[o]));
    }
};

template <class Weights, int kOutputs, int kRows>
struct FewSums {
    VF32 sum[kOutputs][kRows];
    VF32 scale[kOutputs][kRows][kScaleVectors<Weights>];  // of the chunk, times those of x

    HWY_INLINE FewSums() {
        for (auto& row : sum)
            for (VF32& one : row) one = hn::Zero(DF32());
    }

    // The scales of a chunk, and what it adds by minimum or offset: that times the sum of x.
    HWY_INLINE void begin_chunk(const WeightRows<Weights, kOutputs>& w, int count, const QuantizedRow* x, int64_t run) {
        const DF32 d;
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) {
            const ScalesOf<Weights> scales = Weights::scales(w.row[o], count);
#if HWY_CAP_GE512
            if constexpr (kMinimaFollow<Weights>) {
                TANDEM_UNROLL
                for (int m = 0; m < kRows; ++m) {
                    const hn::Half<DF32> half;
                    const VF32 by =
                        hn::Combine(d, hn::LoadU(half, x[m].sums + run), hn::LoadU(half, x[m].scales + run));
                    const VF32 product = hn::Mul(scales.scale[0], by);
                    scale[o][m][0] = product;
                    sum[o][m] = VF32{_mm512_mask_sub_ps(sum[o][m].raw, 0xff00, sum[o][m].raw, product.raw)};
                }
                continue;
            }
#endif
            TANDEM_UNROLL
            for (int i = 0; i < kScaleVectors<Weights>; ++i) {
                VF32 minimum = scales.minimum[i];
                if constexpr (!Weights::kMinimum)
                    minimum = hn::Mul(scales.scale[i], hn::Set(d, static_cast<float>(-Weights::kOffset)));
                TANDEM_UNROLL
                for (int m = 0; m < kRows; ++m) {
                    scale[o][m][i] = hn::Mul(scales.scale[i], hn::LoadU(d, x[m].scales + run + i * kLanes));
                    if constexpr (Weights::kMinimum || Weights::kOffset > 0)
                        sum[o][m] = hn::MulAdd(minimum, hn::LoadU(d, x[m].sums + run + i * kLanes), sum[o][m]);
                }
            }
        }
    }

    // The products of vector v of the chunk, which begins at `x[m].q + element`.
    HWY_INLINE void add_vector(const WeightRows<Weights, kOutputs>& w, int v, const QuantizedRow* x, int64_t element) {
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) {
            const BytePair bytes = load(w.row[o], v);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                const int8_t* eights =
                    x[m].q + element + (Weights::kPaired ? v / kPairs * 128 + v % kPairs * kBytes : v * kBytes);
                VI32 products = dot4<Weights::kOffset>(hn::Zero(DI32()), bytes.first, hn::LoadU(DI8(), eights));
                if constexpr (Weights::kPaired)
                    products = dot4<Weights::kOffset>(products, bytes.second, hn::LoadU(DI8(), eights + 64));
                const VF32 factor = spread_scales<Weights>(scale[o][m], v);
                sum[o][m] = hn::MulAdd(hn::ConvertTo(DF32(), products), factor, sum[o][m]);
            }
        }
    }

  private:
    static constexpr int kPairs = 64 / kBytes;  // pairs of vectors in a group

    static HWY_INLINE BytePair load(const typename Weights::Block* chunk, int v) {
        if constexpr (Weights::kPaired) {
            return Weights::load_pair(chunk, v);
        } else if constexpr (Weights::kAlternate) {
            return {Weights::load_few(chunk, v), hn::Zero(DU8())};
        } else {
            return {Weights::load(chunk, v), hn::Zero(DU8())};
        }
    }
};

// What a chunk has less than all of its blocks, at the end of a row.
template <class Weights, int kOutputs, int kRows>
HWY_INLINE void add_rest(FewSums<Weights, kOutputs, kRows>& sums, const WeightRows<Weights, kOutputs>& chunk, int rest,
                         const QuantizedRow* x, int64_t element) {
    constexpr int kVectorBlocks = std::max(Weights::kBlocks / kVectors<Weights>, 1);
    chunk.prefetch(rest);
    sums.begin_chunk(chunk, rest, x, element / Weights::kRun);
    const int vectors = rest * kVectors<Weights> / Weights::kBlocks;
    for (int v = 0; v < vectors; ++v) sums.add_vector(chunk, v, x, element);
    const int over = rest % kVectorBlocks;  // blocks where a vector takes more
    if (over == 0) return;
    typename Weights::Block last[kOutputs][Weights::kBlocks] = {};
    auto padded = chunk;
    for (int o = 0; o < kOutputs; ++o) {
        std::copy_n(chunk.row[o] + rest - over, over, last[o] + rest - over);
        padded.row[o] = last[o];
    }
    sums.add_vector(padded, vectors, x, element);
}

// Sums of products whose weights come with their scales in the lanes where they are needed (load_scaled); those of x
// lie in such lanes, too.
template <class Weights, int kOutputs, int kRows>
struct ScaledSums {
    VF32 sum[kOutputs][kRows];

    HWY_INLINE ScaledSums() {
        for (auto& row : sum)
            for (VF32& one : row) one = hn::Zero(DF32());
    }

    // The products of kGroup blocks, of which the first is block `block` of x.
    HWY_INLINE void add(const WeightRows<Weights, kOutputs>& w, const QuantizedRow* x, int64_t block) {
        TANDEM_UNROLL
        for (int o = 0; o < kOutputs; ++o) {
            const ScaledBytes q = Weights::load_scaled(w.row[o]);
            TANDEM_UNROLL
            for (int m = 0; m < kRows; ++m) {
                const int8_t* eights = x[m].q + block * 32;
                const int64_t lane = block * kLanesOfRun<Weights>;
                VI32 products = hn::LoadU(DI32(), x[m].corrections + lane);
                products = dot4<Weights::kOffset>(products, q.bytes.first, hn::LoadU(DI8(), eights));
                products = dot4<Weights::kOffset>(products, q.bytes.second, hn::LoadU(DI8(), eights + 64));
                const VF32 factor = hn::Mul(q.scale, hn::LoadU(DF32(), x[m].scales + lane));
                sum[o][m] = hn::MulAdd(hn::ConvertTo(DF32(), products), factor, sum[o][m]);
            }
        }
    }

    // Fewer than kGroup blocks.
    HWY_INLINE void add_rest(const WeightRows<Weights, kOutputs>& w, int rest, const QuantizedRow* x, int64_t block) {
        typename Weights::Block last[kOutputs][kGroup] = {};
        WeightRows<Weights, kOutputs> padded;
        for (int o = 0; o < kOutputs; ++o) {
            std::copy_n(w.row[o], rest, last[o]);
            padded.row[o] = last[o];
        }
        add(padded, x, block);
    }
};

template <class Weights, int kOutputs, int kRows>
HWY_INLINE void dot_scaled_rows(const WeightRows<Weights, kOutputs>& w, const QuantizedRow* x, int64_t blocks,
                                float (&y)[kOutputs][kRows]) {
    constexpr int kAtOnce = 4 * kGroup;  // for which memory is asked together
    constexpr size_t kAhead = 2048;      // there is less to do for a byte than elsewhere
    ScaledSums<Weights, kOutputs, kRows> sums;
    int64_t block = 0;
    for (; block + kAtOnce <= blocks; block += kAtOnce) {
        w.at(block).template prefetch<kAhead>(kAtOnce);
        TANDEM_UNROLL
        for (int i = 0; i < kAtOnce; i += kGroup) sums.add(w.at(block + i), x, block + i);
    }
    if (block < blocks) w.at(block).template prefetch<kAhead>(static_cast<int>(blocks - block));
    for (; block + kGroup <= blocks; block += kGroup) sums.add(w.at(block), x, block);
    if (block < blocks) sums.add_rest(w.at(block), static_cast<int>(blocks - block), x, block);
    sum_lanes_of(sums.sum, y);
}

// y[o][m] = w[o] . x[m] for kRows rows of x
template <class Weights, int kOutputs, int kRows>
HWY_INLINE void dot_rows(const WeightRows<Weights, kOutputs>& w, const QuantizedRow* x, int64_t blocks,
                         float (&y)[kOutputs][kRows]) {
    constexpr int kElements = Weights::kRun * Weights::kRuns / Weights::kBlocks;
    FewSums<Weights, kOutputs, kRows> sums;
    int64_t block = 0;
    for (; block + Weights::kBlocks <= blocks; block += Weights::kBlocks) {
        const auto chunk = w.at(block);
        chunk.prefetch(Weights::kBlocks);
        sums.begin_chunk(chunk, Weights::kBlocks, x, block * kElements / Weights::kRun);
        TANDEM_UNROLL
        for (int v = 0; v < kVectors<Weights>; ++v) sums.add_vector(chunk, v, x, block * kElements);
    }
    if constexpr (Weights::kBlocks > 1) {
        const int rest = static_cast<int>(blocks - block);
        if (rest > 0) add_rest<Weights>(sums, w.at(block), rest, x, block * kElements);
    }
    sum_lanes_of(sums.sum, y);
}

// At most kRows rows; where there are fewer, the last is multiplied again.
template <class Weights, int kRows>
void multiply_group(const Product& p, RowRange outputs) {
    const int64_t blocks = p.weight.cols / (Weights::kRun * Weights::kRuns / Weights::kBlocks);
    QuantizedRow x[kRows];
    for (int m = 0; m < kRows; ++m) x[m] = p.rounded.row(std::min<int64_t>(m, p.x.rows - 1));
    for_each_stream<kRows>(outputs, [&](auto count, const OutputStreams& output) HWY_ATTR {
        WeightRows<Weights, count> w;
        for (int o = 0; o < count; ++o)
            w.row[o] = reinterpret_cast<const typename Weights::Block*>(p.weight.row(output[o]));
        float y[count][kRows];
        if constexpr (kScalesInLanes<Weights>) {
            dot_scaled_rows<Weights>(w, x, blocks, y);
        } else {
            dot_rows<Weights>(w, x, blocks, y);
        }
        for (int o = 0; o < count; ++o) {
            const float bias = p.bias != nullptr ? p.bias[output[o]] : 0.0F;
            for (int64_t m = 0; m < p.x.rows; ++m) p.out.f32(m)[output[o]] = y[o][m] + bias;
        }
    });
}

// Some outputs of up to kFewRows rows. Three are multiplied as four, the last of them twice: weights are read once
// anyway.
template <class Weights>
void multiply_few(const Product& p, RowRange outputs) {
    if (p.x.rows == 1) {
        multiply_group<Weights, 1>(p, outputs);
    } else if (p.x.rows == 2) {
        multiply_group<Weights, 2>(p, outputs);
    } else {
        multiply_group<Weights, kFewRows>(p, outputs);
    }
}

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
