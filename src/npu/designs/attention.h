// attention_i8: flash attention of a chunk of tokens over int8 keys and values, on the whole array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "npu/design.h"
#include "npu/estimate.h"

namespace tandem::npu {

inline constexpr int kFirstAttentionRow = 2;  // of the array: the first with cores

struct AttentionShape {
    int64_t tokens = 0;  // of the chunk, at positions one after another
    int64_t heads = 0;   // a multiple of kv_heads
    int64_t kv_heads = 0;
    int64_t head_dim = 0;  // a multiple of 32
    int64_t keys = 0;      // the most that the chunk sees
    std::string array = "npu1";
};

// A column of the array works on one head of keys at a time, which all its cores get; each core has tile_queries rows
// of queries, the heads that share the keys side by side: row = token * group + head.
struct AttentionLayout {
    std::string array;
    int rows = 0;
    int columns = 0;
    int64_t kv_heads = 0;
    int64_t group = 0;  // heads per head of keys, rounded up to a power of two
    int64_t heads = 0;  // kv_heads * the real group
    int64_t head_dim = 0;
    int64_t tile_queries = 0;
    int64_t tile_keys = 0;
    int64_t key_tiles = 0;  // per head
    int64_t steps = 0;      // per head: how often all cores of a column take queries
    int64_t tokens = 0;     // rounded up to steps * tokens_per_step

    int64_t tokens_per_step() const { return rows * tile_queries / group; }
    int64_t units() const { return kv_heads * steps; }  // a multiple of columns
    int64_t q_object_bytes() const;
    int64_t kv_object_bytes() const;
    int64_t q_bytes() const { return units() * rows * q_object_bytes(); }
    int64_t kv_bytes() const { return kv_heads * key_tiles * kv_object_bytes(); }
    int64_t y_bytes() const { return tokens * kv_heads * group * head_dim * 4; }
};

Result<AttentionLayout> attention_layout(const AttentionShape& shape);

// Arguments: q packed (q_bytes), kv packed (kv_bytes), y f32 [tokens][kv_heads][group][head_dim] with the layout's
// tokens and group. Each core's sums stay in its memory from the first tile of keys to the last.
Result<Design> attention_i8(const AttentionLayout& layout);

// For foresee(): every query sees every key.
std::vector<Sample> attention_samples(const AttentionLayout& layout);

// Which keys the queries of a run see.
struct AttentionSight {
    int32_t first_position = 0;  // of the queries
    int32_t window = 0;          // as in AttentionQueries
    int32_t first_key = 0;
    int64_t keys = 0;
};
// For foresee() with the samples: how many tiles of keys each core works on; it skips those none of its queries sees.
std::vector<Share> attention_shares(const AttentionLayout& layout, const AttentionSight& sight);

struct AttentionQueries {
    const float* values = nullptr;  // [tokens][heads][head_dim], tokens `stride` floats apart
    int64_t tokens = 0;
    int64_t stride = 0;
    int32_t first_position = 0;
    int32_t window = 0;  // a query sees so many positions, itself the last; 0: all up to itself
    float scale = 1;
    float softcap = 0;  // 0: none
};
// Each row (a head of a token) becomes int8 by its largest magnitude / 127. Rows that are missing are zero, and what
// comes of them means nothing.
void pack_queries(const AttentionLayout& layout, const AttentionQueries& queries, std::span<std::byte> packed);

// Says which positions the keys of the buffer are: `count` from `first` on. Needed before each run.
void set_keys(const AttentionLayout& layout, int32_t first, int64_t count, std::span<std::byte> packed);

// One token of one head, as an int8 cache has it: a scale for each 32 elements.
struct KeyValue {
    int64_t kv_head = 0;
    int64_t index = 0;  // from the first key of the buffer on
    std::span<const int8_t> key, value;
    std::span<const float> key_scales, value_scales;
};
void put_key_value(const AttentionLayout& layout, const KeyValue& token, std::span<std::byte> packed);

}  // namespace tandem::npu
