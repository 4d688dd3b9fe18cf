// What the SIMD versions of attention.cpp share: how the work is cut, and what lies in a thread's scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu::simd {

inline constexpr int kTileKeys = 32;    // keys whose scores are computed together
inline constexpr int kQueries = 16;     // queries that share them: heads of a group, and rows
inline constexpr int kPadding = 16;     // head_dim is rounded up to this, with zeros
inline constexpr int kSplitKeys = 256;  // the least that a thread takes of a long context

inline int64_t padded(int64_t n) {
    return (n + kPadding - 1) / kPadding * kPadding;
}

// Rows that are handled together, and the queries they make with the heads that share keys.
inline int rows_together(const op::Attention& op) {
    const int group = op.heads / op.kv_heads;
    return group >= kQueries ? 1 : kQueries / group;
}
inline int queries_together(const op::Attention& op) {
    return rows_together(op) * (op.heads / op.kv_heads);
}

// Queries of neighbouring rows of one sequence for one head of keys, and the keys they look at.
struct AttentionItem {
    const device::SequenceRows* sequence;
    int32_t first_row;  // in the batch
    int32_t rows;
    int32_t kv_head;
    int32_t first_key;
    int32_t end_key;
};

// The state of a softmax that is computed piece by piece, per query: the largest score so far, the sum of
// exp(score - largest), and the sum of exp(score - largest) * value.
struct AttentionState {
    float* largest;
    float* sum;
    float* values;  // [queries, padded head_dim]

    static size_t floats(int64_t queries, int64_t head_dim) {
        return static_cast<size_t>(2 * padded(queries) + queries * padded(head_dim));
    }
    static AttentionState at(float* memory, int64_t queries) {
        return {memory, memory + padded(queries), memory + 2 * padded(queries)};
    }
};

// What a thread needs while it works on an item.
struct AttentionTile {
    float* q;       // [queries, padded head_dim], times scale
    float* scores;  // [queries, kTileKeys]
    float* keys;    // [kTileKeys, padded head_dim]
    float* values;

    static size_t floats(int64_t queries, int64_t head_dim) {
        return static_cast<size_t>((queries + 2 * kTileKeys) * padded(head_dim) + queries * kTileKeys);
    }
    static AttentionTile at(float* memory, int64_t queries, int64_t head_dim) {
        const int64_t width = padded(head_dim);
        float* keys = memory + queries * width;
        float* values = keys + kTileKeys * width;
        return {memory, values + kTileKeys * width, keys, values};
    }
};

}  // namespace tandem::cpu::simd
