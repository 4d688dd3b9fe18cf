#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "npu/designs/attention.h"
#include "npu/designs/quantize_row.h"
#include "npu/kernels.h"

namespace tandem::npu {
namespace {

constexpr int64_t kHeaderBytes = sizeof(AttentionHeader);
constexpr int64_t kScaleBlock = 32;

void put_header(const AttentionHeader& header, std::byte* object) {
    std::memcpy(object, &header, sizeof header);
}

// Row `row` of a tiled matrix of blocks of `block_rows` x 8, 8 elements at a time.
void put_row(std::span<const int8_t> values, int64_t row, int64_t block_rows, std::byte* matrix) {
    const int64_t columns = std::ssize(values) / 8;
    for (int64_t j = 0; j < columns; ++j)
        std::memcpy(matrix + (row / block_rows * columns + j) * block_rows * 8 + row % block_rows * 8,
                    values.data() + j * 8, 8);
}

void put_float(float value, int64_t index, std::byte* floats) {
    std::memcpy(floats + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

// The object of one core: the queries of `token_count` tokens from `first_token` on.
void pack_object(const AttentionLayout& layout, const AttentionQueries& queries, int64_t kv_head, int64_t first_token,
                 std::byte* object) {
    std::byte* const q = object + kHeaderBytes;
    std::byte* const scales = q + layout.tile_queries * layout.head_dim;
    put_header({.group = static_cast<int32_t>(layout.group),
                .first_query = queries.first_position + static_cast<int32_t>(first_token),
                .window = queries.window,
                .scale_bits = std::bit_cast<int32_t>(queries.scale),
                .softcap_bits = std::bit_cast<int32_t>(queries.softcap),
                .key_tiles = static_cast<int32_t>(layout.key_tiles)},
               object);
    const int64_t group = layout.heads / layout.kv_heads;
    std::vector<int8_t> row(static_cast<size_t>(layout.head_dim));
    for (int64_t token = 0; token < layout.tile_queries / layout.group; ++token) {
        if (first_token + token >= queries.tokens) return;
        const float* const of_token = queries.values + (first_token + token) * queries.stride;
        for (int64_t head = 0; head < group; ++head) {
            const int64_t at = token * layout.group + head;
            const float* const values = of_token + (kv_head * group + head) * layout.head_dim;
            put_float(quantize_row({values, row.size()}, row), at, scales);
            put_row(row, at, 4, q);
        }
    }
}

}  // namespace

std::vector<Sample> attention_samples(const AttentionLayout& layout) {
    std::vector<std::byte> q(static_cast<size_t>(kHeaderBytes));
    std::vector<std::byte> kv(static_cast<size_t>(kHeaderBytes));
    put_header({.group = static_cast<int32_t>(layout.group),
                .first_query = static_cast<int32_t>(layout.tile_keys),
                .scale_bits = std::bit_cast<int32_t>(1.0F)},
               q.data());
    put_header({.key_count = static_cast<int32_t>(layout.tile_keys)}, kv.data());
    std::vector<Sample> samples;
    for (int c = 0; c < layout.columns; ++c) {
        samples.push_back({fmt::format("kv{}", c), kv});
        for (int r = 0; r < layout.rows; ++r) samples.push_back({fmt::format("q{}_{}", c, r), q});
    }
    return samples;
}

namespace {

// Of the tiles of a head's keys, as attention_i8_tile decides it.
uint64_t tiles_seen(const AttentionLayout& layout, const AttentionSight& sight, int64_t first_token) {
    const int64_t first_query = sight.first_position + first_token;
    const int64_t last_query = first_query + (layout.tile_queries - 1) / layout.group;
    uint64_t seen = 0;
    for (int64_t tile = 0; tile < layout.key_tiles; ++tile) {
        const int64_t first_key = sight.first_key + tile * layout.tile_keys;
        const int64_t count = std::min(sight.keys - tile * layout.tile_keys, layout.tile_keys);
        const bool passed = sight.window > 0 && first_key + count <= first_query - sight.window + 1;
        if (count > 0 && first_key <= last_query && !passed) ++seen;
    }
    return seen;
}

}  // namespace

std::vector<Share> attention_shares(const AttentionLayout& layout, const AttentionSight& sight) {
    const int64_t tokens_of_core = layout.tile_queries / layout.group;
    const int64_t per_column = layout.units() / layout.columns;
    std::vector<uint64_t> of_step(static_cast<size_t>(layout.steps));
    std::vector<Share> shares;
    for (int r = 0; r < layout.rows; ++r) {
        for (int64_t step = 0; step < layout.steps; ++step)
            of_step[static_cast<size_t>(step)] =
                tiles_seen(layout, sight, step * layout.tokens_per_step() + r * tokens_of_core);
        for (int c = 0; c < layout.columns; ++c) {
            Share share{.tile = {c, kFirstAttentionRow + r}, .kernel = "attention_i8_tile", .calls = 0};
            for (int64_t unit = c * per_column; unit < (c + 1) * per_column; ++unit)
                share.calls += of_step[static_cast<size_t>(unit % layout.steps)];
            shares.push_back(std::move(share));
        }
    }
    return shares;
}

void pack_queries(const AttentionLayout& layout, const AttentionQueries& queries, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.q_bytes() && queries.tokens <= layout.tokens);
    std::fill(packed.begin(), packed.end(), std::byte{0});
    const int64_t tokens_of_core = layout.tile_queries / layout.group;
    for (int64_t unit = 0; unit < layout.units(); ++unit) {
        for (int64_t r = 0; r < layout.rows; ++r) {
            const int64_t first_token = unit % layout.steps * layout.tokens_per_step() + r * tokens_of_core;
            pack_object(layout, queries, unit / layout.steps, first_token,
                        packed.data() + (unit * layout.rows + r) * layout.q_object_bytes());
        }
    }
}

void set_keys(const AttentionLayout& layout, int32_t first, int64_t count, std::span<std::byte> packed) {
    CHECK(std::ssize(packed) == layout.kv_bytes() && count <= layout.key_tiles * layout.tile_keys);
    for (int64_t i = 0; i < layout.kv_heads * layout.key_tiles; ++i) {
        const int64_t skipped = i % layout.key_tiles * layout.tile_keys;
        put_header({.first_key = first + static_cast<int32_t>(skipped),
                    .key_count = static_cast<int32_t>(std::clamp<int64_t>(count - skipped, 0, layout.tile_keys))},
                   packed.data() + i * layout.kv_object_bytes());
    }
}

void put_key_value(const AttentionLayout& layout, const KeyValue& token, std::span<std::byte> packed) {
    const int64_t tile = token.index / layout.tile_keys;
    const int64_t row = token.index % layout.tile_keys;
    CHECK(token.kv_head < layout.kv_heads && tile < layout.key_tiles && std::ssize(packed) == layout.kv_bytes() &&
          std::ssize(token.key) == layout.head_dim && std::ssize(token.value) == layout.head_dim);
    std::byte* const keys =
        packed.data() + (token.kv_head * layout.key_tiles + tile) * layout.kv_object_bytes() + kHeaderBytes;
    std::byte* const values = keys + layout.tile_keys * layout.head_dim;
    std::byte* const key_scales = values + layout.tile_keys * layout.head_dim;
    const int64_t blocks = layout.head_dim / kScaleBlock;
    put_row(token.key, row, 8, keys);
    put_row(token.value, row, 8, values);
    for (int64_t block = 0; block < blocks; ++block) {
        const auto i = static_cast<size_t>(block);
        put_float(token.key_scales[i], block * layout.tile_keys + row, key_scales);
        put_float(token.value_scales[i], (blocks + block) * layout.tile_keys + row, key_scales);
    }
}

}  // namespace tandem::npu
