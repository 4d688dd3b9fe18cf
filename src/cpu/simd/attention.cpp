// Attention with an online softmax over the paged cache. All heads that share keys, and several rows of a prompt, go
// through the keys together, so that each key is read and converted once for all of them. When there are fewer such
// groups than threads, a long context is cut into ranges whose results are merged.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/attention.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include <algorithm>
#include <cmath>

#include "cpu/simd/attention.h"
#include "cpu/simd/decode-inl.h"
#include "cpu/simd/dot-inl.h"
#include "cpu/simd/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

inline constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(DWide()));
static_assert(kPadding % kStep == 0 && kTileKeys % kStep == 0);

// `count` rows of head_dim elements from the cache as f32 with zeros up to `width`; where they are if they can be used
// there.
const float* load_rows(const std::byte* rows, DType dtype, int64_t head_dim, int count, float* buffer) {
    const int64_t width = padded(head_dim);
    if (dtype == DType::f32 && width == head_dim) return reinterpret_cast<const float*>(rows);
    const DecodeSpan decode = decoder_of(dtype);
    if (width == head_dim) {
        decode(rows, 0, count * head_dim, buffer);
        return buffer;
    }
    for (int i = 0; i < count; ++i) {
        decode(rows, i * head_dim, head_dim, buffer + i * width);
        std::fill(buffer + i * width + head_dim, buffer + (i + 1) * width, 0.0F);
    }
    return buffer;
}

// scores[q][key] = q . key
template <int kRows>
void score_rows(const float* q, const float* keys, int count, int64_t width, float* scores) {
    Operands in{.w = keys, .w_stride = width, .x = q, .x_stride = width, .count = width};
    float sums[kRows][kOutputsAtOnce];
    int key = 0;
    for (; key + kOutputsAtOnce <= count; key += kOutputsAtOnce) {
        in.w = keys + key * width;
        dot_products<kRows, kOutputsAtOnce>(in, sums);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) std::copy_n(sums[m], kOutputsAtOnce, scores + m * kTileKeys + key);
    }
    for (; key < count; ++key) {
        in.w = keys + key * width;
        dot_products<kRows, 1>(in, sums);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) scores[m * kTileKeys + key] = sums[m][0];
    }
}

void score_all(const AttentionTile& tile, const float* keys, int count, int queries, int64_t width) {
    for (int q = 0; q < queries;) {
        const float* from = tile.q + q * width;
        float* to = tile.scores + q * kTileKeys;
        if (queries - q >= kRowsAtOnce) {
            score_rows<kRowsAtOnce>(from, keys, count, width, to);
            q += kRowsAtOnce;
        } else if (queries - q >= 2) {
            score_rows<2>(from, keys, count, width, to);
            q += 2;
        } else {
            score_rows<1>(from, keys, count, width, to);
            q += 1;
        }
    }
}

void cap_scores(float* scores, float cap) {
    const DWide d;
    for (int i = 0; i < kTileKeys; i += kStep) {
        const VWide bent = hn::Tanh(d, hn::Div(hn::Load(d, scores + i), hn::Set(d, cap)));
        hn::Store(hn::Mul(hn::Set(d, cap), bent), d, scores + i);
    }
}

// Makes scores, minus infinity where a key is not seen, into weights exp(score - largest). Returns the factor for what
// was summed with the largest score so far.
float weigh_scores(float* scores, float& largest, float& sum) {
    const DWide d;
    VWide tile_largest = hn::Load(d, scores);
    for (int i = kStep; i < kTileKeys; i += kStep) tile_largest = hn::Max(tile_largest, hn::Load(d, scores + i));
    const float new_largest = std::max(largest, hn::GetLane(hn::MaxOfLanes(d, tile_largest)));
    const float factor = std::exp(largest - new_largest);
    VWide tile_sum = hn::Zero(d);
    for (int i = 0; i < kTileKeys; i += kStep) {
        const VWide weight = hn::Exp(d, hn::Sub(hn::Load(d, scores + i), hn::Set(d, new_largest)));
        hn::Store(weight, d, scores + i);
        tile_sum = hn::Add(tile_sum, weight);
    }
    largest = new_largest;
    sum = sum * factor + hn::GetLane(hn::SumOfLanes(d, tile_sum));
    return factor;
}

// sums[q] = factors[q] * sums[q] + weights[q] * values, for kRows queries and kVectors vectors of columns.
template <int kRows, int kVectors>
HWY_INLINE void add_values(const float* weights, const float* factors, const float* values, int count, int64_t width,
                           float* sums) {
    const DWide d;
    VWide acc[kRows][kVectors];
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        TANDEM_UNROLL
        for (int v = 0; v < kVectors; ++v)
            acc[m][v] = hn::Mul(hn::LoadU(d, sums + m * width + v * kStep), hn::Set(d, factors[m]));
    }
    for (int key = 0; key < count; ++key) {
        VWide value[kVectors];
        TANDEM_UNROLL
        for (int v = 0; v < kVectors; ++v) value[v] = hn::LoadU(d, values + key * width + v * kStep);
        TANDEM_UNROLL
        for (int m = 0; m < kRows; ++m) {
            const VWide weight = hn::Set(d, weights[m * kTileKeys + key]);
            TANDEM_UNROLL
            for (int v = 0; v < kVectors; ++v) acc[m][v] = hn::MulAdd(weight, value[v], acc[m][v]);
        }
    }
    TANDEM_UNROLL
    for (int m = 0; m < kRows; ++m) {
        TANDEM_UNROLL
        for (int v = 0; v < kVectors; ++v) hn::StoreU(acc[m][v], d, sums + m * width + v * kStep);
    }
}

template <int kRows>
void add_all_values(const float* weights, const float* factors, const float* values, int count, int64_t width,
                    float* sums) {
    constexpr int kVectors = kRows >= 4 ? 3 : 4;
    int64_t c = 0;
    for (; c + kVectors * kStep <= width; c += kVectors * kStep)
        add_values<kRows, kVectors>(weights, factors, values + c, count, width, sums + c);
    for (; c < width; c += kStep) add_values<kRows, 1>(weights, factors, values + c, count, width, sums + c);
}

// The keys that a row at `position` sees.
struct KeyRange {
    int32_t begin;
    int32_t end;
};
HWY_INLINE KeyRange visible(const op::Attention& op, int32_t position) {
    return {op.window == 0 ? 0 : std::max(0, position + 1 - op.window), position + 1};
}

// Takes `count` keys from position `first` on, all in one block of the cache, into the state.
void add_tile(const op::Attention& op, const Step& step, const AttentionItem& item, KeyRange keys,
              const AttentionTile& tile, const AttentionState& state) {
    const PagedCache& cache = *step.cache;
    const DType dtype = cache.shape().dtype;
    const int block_tokens = cache.shape().block_tokens;
    const int64_t width = padded(op.head_dim);
    const int group = op.heads / op.kv_heads;
    const int queries = item.rows * group;
    const int count = keys.end - keys.begin;
    const auto& table = item.sequence->blocks[static_cast<size_t>(cache.layer(op.cache).group)];
    const int32_t block = table[static_cast<size_t>(keys.begin / block_tokens)];
    const size_t offset = static_cast<size_t>(keys.begin % block_tokens) * row_bytes(dtype, op.head_dim);

    const std::byte* k = cache.keys(op.cache, block, item.kv_head) + offset;
    score_all(tile, load_rows(k, dtype, op.head_dim, count, tile.keys), count, queries, width);
    float factors[64];
    CHECK(queries <= 64);
    for (int q = 0; q < queries; ++q) {
        float* scores = tile.scores + q * kTileKeys;
        std::fill(scores + count, scores + kTileKeys, 0.0F);
        if (op.softcap > 0.0F) cap_scores(scores, op.softcap);
        const int32_t row = item.first_row + q / group - item.sequence->first_row;
        const KeyRange seen = visible(op, item.sequence->past + row);
        std::fill(scores, scores + std::clamp(seen.begin - keys.begin, 0, count), -HUGE_VALF);
        std::fill(scores + std::clamp(seen.end - keys.begin, 0, count), scores + kTileKeys, -HUGE_VALF);
        factors[q] = weigh_scores(scores, state.largest[q], state.sum[q]);
    }
    const std::byte* v = cache.values(op.cache, block, item.kv_head) + offset;
    const float* values = load_rows(v, dtype, op.head_dim, count, tile.values);
    for (int q = 0; q < queries;) {
        const float* weights = tile.scores + q * kTileKeys;
        float* sums = state.values + q * width;
        if (queries - q >= 4) {
            add_all_values<4>(weights, factors + q, values, count, width, sums);
            q += 4;
        } else {
            add_all_values<1>(weights, factors + q, values, count, width, sums);
            q += 1;
        }
    }
}

// Runs the softmax of an item's queries over its keys; finish() or a merge makes the output of the state.
void attend(const op::Attention& op, const Args& args, const AttentionItem& item, const AttentionTile& tile,
            const AttentionState& state) {
    const int64_t width = padded(op.head_dim);
    const int group = op.heads / op.kv_heads;
    const int queries = item.rows * group;
    for (int q = 0; q < queries; ++q) {
        const float* from =
            args.in[0].f32(item.first_row + q / group) + (int64_t{item.kv_head} * group + q % group) * op.head_dim;
        float* to = tile.q + q * width;
        for (int i = 0; i < op.head_dim; ++i) to[i] = from[i] * op.scale;
        std::fill(to + op.head_dim, to + width, 0.0F);
        state.largest[q] = -1e30F;  // below every score, and yet a number that can be subtracted
        state.sum[q] = 0.0F;
    }
    std::fill_n(state.values, queries * width, 0.0F);
    const int block_tokens = args.step.cache->shape().block_tokens;
    for (int32_t key = item.first_key; key < item.end_key;) {
        const int32_t block_end = (key / block_tokens + 1) * block_tokens;
        const int32_t end = std::min({block_end, key + kTileKeys, item.end_key});
        add_tile(op, args.step, item, {key, end}, tile, state);
        key = end;
    }
}

// Output rows of the item's queries: the states of all its ranges of keys, weighted by what they share with each other
// and with a sink.
void merge(const op::Attention& op, const Args& args, const AttentionItem& item, const AttentionState* states,
           int count) {
    const DWide d;
    const int64_t width = padded(op.head_dim);
    const int group = op.heads / op.kv_heads;
    for (int q = 0; q < item.rows * group; ++q) {
        float largest = states[0].largest[q];
        for (int s = 1; s < count; ++s) largest = std::max(largest, states[s].largest[q]);
        float sum = 0.0F;
        if (args.in.size() > 2) {
            const float sink = args.in[2].f32()[item.kv_head * group + q % group];
            largest = std::max(largest, sink);
            sum = std::exp(sink - largest);
        }
        for (int s = 0; s < count; ++s) sum += states[s].sum[q] * std::exp(states[s].largest[q] - largest);
        float* merged = states[0].values + q * width;
        for (int s = 0; s < count; ++s) {
            const VWide factor = hn::Set(d, std::exp(states[s].largest[q] - largest) / sum);
            const float* values = states[s].values + q * width;
            for (int64_t i = 0; i < width; i += kStep) {
                const VWide before = s == 0 ? hn::Zero(d) : hn::LoadU(d, merged + i);
                hn::StoreU(hn::MulAdd(hn::LoadU(d, values + i), factor, before), d, merged + i);
            }
        }
        float* to =
            args.out.f32(item.first_row + q / group) + (int64_t{item.kv_head} * group + q % group) * op.head_dim;
        std::copy_n(merged, op.head_dim, to);
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(attend);
HWY_EXPORT(merge);

constexpr int kMostSplits = 32;

bool supports(const op::Attention& op, graph::InputTypes /*inputs*/) {
    return op.heads / op.kv_heads <= 64;
}

// Ranges of keys are only made where there are fewer groups than twice the threads, so there are at most so many
// states at once, but for each thread there is one in any case.
int64_t most_states(int threads) {
    return int64_t{4} * threads + kMostSplits;
}

size_t scratch_bytes(const op::Attention& op, const NodePlan& plan) {
    const int64_t queries = queries_together(op);
    const size_t items = static_cast<size_t>(plan.inputs[0].rows(plan.limits)) * sizeof(AttentionItem);
    const size_t tiles = static_cast<size_t>(plan.threads) * AttentionTile::floats(queries, op.head_dim);
    const size_t states = static_cast<size_t>(most_states(plan.threads)) * AttentionState::floats(queries, op.head_dim);
    return (items + 63) / 64 * 64 + (tiles + states) * sizeof(float);
}

// Neighbouring rows of every sequence, as items for head 0 of keys and values.
std::span<AttentionItem> cut_rows(const op::Attention& op, const Args& args) {
    auto* items = reinterpret_cast<AttentionItem*>(args.step.scratch.data());
    size_t count = 0;
    for (const device::SequenceRows& sequence : args.step.batch->sequences) {
        for (int32_t r = 0; r < sequence.rows; r += rows_together(op)) {
            const int32_t rows = std::min(sequence.rows - r, rows_together(op));
            const int32_t position = sequence.past + r;
            items[count++] = {.sequence = &sequence,
                              .first_row = sequence.first_row + r,
                              .rows = rows,
                              .kv_head = 0,
                              .first_key = op.window == 0 ? 0 : std::max(0, position + 1 - op.window),
                              .end_key = position + rows};
        }
    }
    return {items, count};
}

// How many ranges the keys of each group are cut into so that no thread stays idle.
int count_splits(std::span<const AttentionItem> items, int64_t groups, int threads) {
    if (groups >= 2 * threads) return 1;
    int32_t longest = 0;
    for (const AttentionItem& item : items) longest = std::max(longest, item.end_key - item.first_key);
    const int64_t wanted = (2 * threads + groups - 1) / groups;
    return static_cast<int>(std::clamp<int64_t>(std::min<int64_t>(wanted, longest / kSplitKeys), 1, kMostSplits));
}

// Part `index` of `count` of an item's keys.
AttentionItem split(AttentionItem item, int index, int count) {
    const int32_t first = item.first_key;
    const int64_t keys = item.end_key - first;
    item.end_key = static_cast<int32_t>(first + keys * (index + 1) / count);
    item.first_key = static_cast<int32_t>(first + keys * index / count);
    return item;
}

void attention(const op::Attention& op, const Args& args) {
    const std::span<AttentionItem> items = cut_rows(op, args);
    const int threads = args.step.threads->size();
    const int64_t queries = queries_together(op);
    const auto groups = static_cast<int64_t>(items.size()) * op.kv_heads;
    if (groups == 0) return;
    const int splits = count_splits(items, groups, threads);
    const size_t item_bytes = (args.in[0].rows * sizeof(AttentionItem) + 63) / 64 * 64;
    auto* memory = reinterpret_cast<float*>(args.step.scratch.data() + item_bytes);
    const size_t tile_floats = AttentionTile::floats(queries, op.head_dim);
    const size_t state_floats = AttentionState::floats(queries, op.head_dim);
    float* states = memory + static_cast<size_t>(threads) * tile_floats;
    const auto run = HWY_DYNAMIC_DISPATCH(attend);
    const auto join = HWY_DYNAMIC_DISPATCH(merge);
    const auto group_item = [&](int64_t group) {
        AttentionItem item = items[static_cast<size_t>(group / op.kv_heads)];
        item.kv_head = static_cast<int32_t>(group % op.kv_heads);
        return item;
    };
    const auto tile_of = [&](int thread) {
        return AttentionTile::at(memory + static_cast<size_t>(thread) * tile_floats, queries, op.head_dim);
    };
    const auto state_at = [&](int64_t index) {
        return AttentionState::at(states + static_cast<size_t>(index) * state_floats, queries);
    };
    if (splits == 1) {
        args.step.for_each_range(groups, 1, [&](int64_t begin, int64_t end, int thread) {
            const AttentionState state = state_at(thread);
            for (int64_t group = begin; group < end; ++group) {
                run(op, args, group_item(group), tile_of(thread), state);
                join(op, args, group_item(group), &state, 1);
            }
        });
        return;
    }
    args.step.for_each_range(groups * splits, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
            const AttentionItem part = split(group_item(i / splits), static_cast<int>(i % splits), splits);
            run(op, args, part, tile_of(thread), state_at(i));
        }
    });
    for (int64_t group = 0; group < groups; ++group) {
        AttentionState parts[kMostSplits];
        for (int s = 0; s < splits; ++s) parts[s] = state_at(group * splits + s);
        join(op, args, group_item(group), parts, splits);
    }
}

const Registration<op::Attention> kFast{FastKernel<op::Attention>{attention, supports, scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
