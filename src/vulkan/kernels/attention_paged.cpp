#include <algorithm>

#include "vulkan/cache_args.h"
#include "vulkan/kernels/attention.h"

namespace tandem::vulkan {

namespace {

struct DecodeParams {
    VkDeviceAddress q, step, positions, sequence_of_row, single_rows, blocks, cache_k, cache_v, counters, parts, y;
    uint32_t stride, rows, window;
    float scale, softcap;
    Chain chain = {};
};

struct PrefillParams {
    VkDeviceAddress q, step, row_tiles, blocks, cache_k, cache_v, y;
    uint32_t stride, rows, window;
    float scale, softcap;
};

constexpr int kMaxHeadDim = 256;  // what shared memory and registers have room for
constexpr int kMaxGroup = 8;
constexpr uint32_t kWide = 128;  // elements of a head; with more it takes twice the registers
constexpr uint32_t kMaxSplits = 32;
constexpr uint64_t kCounterBytes = 65536;    // as attention_decode.comp has it
constexpr uint32_t kFragment = 16;           // rows, columns and depth of a matrix that a subgroup multiplies
constexpr uint32_t kPreferredWarp = 32;      // lanes
constexpr uint32_t kSingleRowSlots = 64;     // rows that are made at once where they are listed; more take turns
constexpr uint32_t kSingleRowsExpected = 4;  // for which the splits are to fill the device

// The workgroups that make rows one by one.
struct RowGroups {
    uint32_t lanes;   // of each
    uint32_t groups;  // that fill the device
};

RowGroups row_groups(const AttentionTuning& tuning, const op::Attention& op, bool matrices) {
    if (!matrices) return {tuning.lanes, tuning.groups};
    if (static_cast<uint32_t>(op.head_dim) > kWide) return {tuning.wide_lanes, tuning.wide_groups};
    return {tuning.matrix_lanes, tuning.matrix_groups};
}

// The most that attention_decode.comp has in shared memory, heads that it makes included.
uint32_t row_shared_bytes(uint32_t lanes, const op::Attention& op, bool matrices, bool cooperative) {
    const auto head_dim = static_cast<uint32_t>(op.head_dim);
    const auto group = static_cast<uint32_t>(op.heads / op.kv_heads);
    const uint32_t warps = divide_up(lanes, kPreferredWarp), together = lanes / (head_dim / 4);
    uint32_t floats = group * kMaxSplits * 2 + 1;  // what the splits have found
    if (together > 0) {
        const uint32_t rounds = divide_up(group + 2, together);
        floats += rounds * (lanes + together * head_dim) + group * head_dim / 2;
    }
    if (matrices) {
        floats += warps * (16 + group * head_dim + (cooperative ? 0 : 16 * kPreferredWarp));
    } else {
        const uint32_t teams = lanes / (head_dim / 8);
        floats += group * (head_dim + lanes + teams) + std::min(group, std::max(512 / lanes, 1U)) * teams * head_dim;
    }
    return floats * sizeof(float);
}

// How the rows share the device.
struct Split {
    uint32_t slots;  // rows at once
    uint32_t splits;
};

// `listed`: only the single rows of a step, mostly few.
Split split_of(uint32_t groups, const op::Attention& op, uint32_t rows, bool listed) {
    const uint32_t expected = listed ? std::min(rows, kSingleRowsExpected) : rows;
    return {listed ? std::min(rows, kSingleRowSlots) : rows,
            std::clamp(groups / (expected * static_cast<uint32_t>(op.kv_heads)), 1U, kMaxSplits)};
}

// What the splits of a row leave for the last of them. The counters come first and take the same place whatever the
// rows, so that steps of different sizes may share the memory: they have to be zero, the rest may be anything.
struct Scratch {
    uint64_t parts, size_bytes;
};

Scratch scratch_of(const op::Attention& op, uint64_t slots_and_splits) {
    const uint64_t heads = slots_and_splits * static_cast<uint64_t>(op.heads);
    const uint64_t parts = (kCounterBytes + heads * 2 * sizeof(float) + 15) / 16 * 16;
    return {parts, parts + heads * static_cast<uint64_t>(op.head_dim) * sizeof(float)};
}

// The rows and positions that a workgroup has in shared memory.
struct PrefillTile {
    uint32_t rows, positions;
};

// As attention_prefill.comp lays it out: keys, values, scores, weights, and queries in place of the first two or,
// without cooperative matrices, beside them.
uint32_t shared_bytes(const PrefillTile& tile, uint32_t head_dim, bool matrix) {
    const uint32_t row = head_dim * 2 + 16;
    const uint32_t work = tile.positions * 2 * row + tile.rows * (tile.positions * 6 + 32);
    return matrix ? std::max(work, tile.rows * row) : work + tile.rows * row;
}

// Where nothing fits: no rows.
PrefillTile fit_tile(const AttentionTuning& tuning, const Capabilities& device, const AttentionCall& call) {
    const auto head_dim = static_cast<uint32_t>(call.op.head_dim);
    PrefillTile tile{tuning.tile_rows, tuning.tile_positions};
    const auto fits = [&] { return shared_bytes(tile, head_dim, device.cooperative_matrix) <= device.shared_bytes; };
    while (!fits() && tile.rows > kFragment) tile.rows /= 2;
    while (!fits() && tile.positions > kFragment) tile.positions /= 2;
    const bool whole_blocks = call.format != ActivationFormat::q8 || tile.positions % 32 == 0;
    return fits() && whole_blocks ? tile : PrefillTile{0, 0};
}

// The same for attention_lanes.comp.
PrefillTile fit_lanes(const AttentionTuning& tuning, const Capabilities& device, const AttentionCall& call) {
    const auto head_dim = static_cast<uint32_t>(call.op.head_dim);
    if (tuning.lane_rows == 0 || call.format == ActivationFormat::q8 || head_dim % 64 != 0) return {0, 0};
    const uint32_t positions =
        head_dim > kWide ? std::max(tuning.lane_positions / 2, kFragment) : tuning.lane_positions;
    const uint32_t emulation = device.cooperative_matrix ? 0 : tuning.lane_rows / kFragment * kPreferredWarp * 64;
    const bool fits = positions * (4 * head_dim + 72) + emulation <= device.shared_bytes;
    return fits ? PrefillTile{tuning.lane_rows, positions} : PrefillTile{0, 0};
}

// What the kernels of tiles and of single rows touch. They write different rows, so only the first of them to be
// recorded says so: they run side by side.
struct Touched {
    std::vector<Access> reads, writes;
};

Touched touched(const AttentionTuning& tuning, const AttentionCall& call) {
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    const auto cols = static_cast<uint64_t>(call.op.heads) * static_cast<uint64_t>(call.op.head_dim);
    Touched touched{{whole(layer.keys), whole(layer.values)},
                    {{call.y, activation_bytes(call.format, call.rows, cols)},
                     {call.scratch, attention_scratch_bytes(tuning, call.op, call.rows)}}};
    if (call.heads == nullptr) {
        touched.reads.push_back({call.q, call.rows * cols * sizeof(uint16_t)});
        return touched;
    }
    for (const Access& read : heads_reads(*call.heads)) touched.reads.push_back(read);
    touched.writes.insert(touched.writes.end(), {whole(layer.keys), whole(layer.values)});
    return touched;
}

PipelineKey lanes_pipeline(const PrefillTile& tile, const Capabilities& device, const AttentionCall& call) {
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.op.cache);
    const bool matrix = device.cooperative_matrix;
    return {.kernel = matrix ? "attention_lanes.khr" : "attention_lanes.scalar",
            .constants = {cache_type(call.cache), tile.rows / kFragment * kPreferredWarp, shape.kv_heads,
                          static_cast<uint32_t>(call.op.heads) / shape.kv_heads, shape.head_dim, shape.block_tokens,
                          tile.positions, static_cast<uint32_t>(call.format)},
            .subgroup = matrix ? kPreferredWarp : 0};
}

PipelineKey tiles_pipeline(const PrefillTile& tile, const Capabilities& device, const AttentionCall& call) {
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.op.cache);
    const bool matrix = device.cooperative_matrix;
    const uint32_t warp =
        matrix ? std::clamp(kPreferredWarp, device.min_subgroup, device.max_subgroup) : kPreferredWarp;
    return {.kernel = matrix ? "attention_prefill.khr" : "attention_prefill.scalar",
            .constants = {cache_type(call.cache), tile.rows / kFragment * warp, warp, kFragment, kFragment, kFragment,
                          shape.kv_heads, static_cast<uint32_t>(call.op.heads) / shape.kv_heads, shape.head_dim,
                          shape.block_tokens, tile.rows, tile.positions, static_cast<uint32_t>(call.format),
                          matrix ? 0U : 1U},
            .subgroup = matrix ? warp : 0};
}

// One workgroup per head and tile of rows.
Status record_tiles(Recorder& recorder, PipelineKey pipeline, uint32_t tile_rows, const AttentionCall& call,
                    const Touched& access) {
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.op.cache);
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    return recorder.dispatch(
        {.pipeline = std::move(pipeline),
         .push = PrefillParams{call.q, call.step.header, call.step.row_tiles, shape.blocks, layer.keys.address,
                               layer.values.address, call.y, shape.stride, call.rows,
                               static_cast<uint32_t>(call.op.window), call.op.scale, call.op.softcap},
         .reads = access.reads,
         .writes = access.writes,
         .groups = {static_cast<uint32_t>(call.op.heads), divide_up(kTileRows, tile_rows), max_row_tiles(call.rows)}});
}

// What attention_decode.comp can do by matrices, within the shared memory that leaves room for several workgroups.
bool fits_matrices(const AttentionTuning& tuning, const AttentionCall& call, const CacheShapeParams& shape) {
    constexpr uint32_t kTilePositions = 16;
    constexpr uint32_t kMostShared = 16384;
    const uint32_t group = static_cast<uint32_t>(call.op.heads) / shape.kv_heads;
    return tuning.matrix_lanes != 0 && call.rows > 1 && call.cache.shape().dtype == DType::f16 &&
           shape.head_dim % 128 == 0 && shape.block_tokens % kTilePositions == 0 &&
           row_groups(tuning, call.op, true).lanes / 32 * group * shape.head_dim * sizeof(float) <= kMostShared;
}

// One workgroup per split, kv head and row. How many positions a split has to read is known to the device alone.
// `listed`: only the step's single rows.
Status record_rows(Recorder& recorder, const AttentionTuning& tuning, const Capabilities& device,
                   const AttentionCall& call, const Touched& access, bool listed) {
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.op.cache);
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    const auto heads = static_cast<uint32_t>(call.op.heads);
    const bool matrices = fits_matrices(tuning, call, shape);
    const RowGroups by = row_groups(tuning, call.op, matrices);
    const Split split = split_of(by.groups, call.op, call.rows, listed);
    const Scratch scratch = scratch_of(call.op, uint64_t{split.slots} * split.splits);
    CHECK(split.splits == 1 || uint64_t{split.slots} * shape.kv_heads * sizeof(uint32_t) <= kCounterBytes);
    const bool cooperative = matrices && device.cooperative_matrix;
    const auto [qkv_splits, pairs, interleaved, v_splits] =
        call.heads == nullptr ? std::array<uint32_t, 4>{1, 0, 0, 0} : heads_constants(*call.heads);
    return recorder.dispatch(
        {.pipeline = {.kernel = !matrices     ? "attention_decode.none"
                                : cooperative ? "attention_decode.khr"
                                              : "attention_decode.scalar",
                      .constants = {cache_type(call.cache), by.lanes, shape.kv_heads, heads / shape.kv_heads,
                                    shape.head_dim, shape.block_tokens, split.splits,
                                    static_cast<uint32_t>(call.format), listed ? 1U : 0U,
                                    call.heads == nullptr ? 0U : 1U, qkv_splits, pairs, interleaved, v_splits},
                      .subgroup = cooperative ? kPreferredWarp : 0},
         .push = DecodeParams{call.heads == nullptr ? call.q : call.heads_block, call.step.header, call.step.positions,
                              call.step.sequence_of_row, call.step.single_rows, shape.blocks, layer.keys.address,
                              layer.values.address, call.scratch, call.scratch + scratch.parts, call.y, shape.stride,
                              call.rows, static_cast<uint32_t>(call.op.window), call.op.scale, call.op.softcap},
         .reads = access.reads,
         .writes = listed ? std::vector<Access>{} : access.writes,
         .chains = call.one_row_each,
         .groups = {shape.kv_heads, split.slots, split.splits}});
}

}  // namespace

bool attention_supported(const op::Attention& op, const DeviceCache& cache) {
    return cache.shape().dtype != DType::f32 && op.head_dim % 32 == 0 && op.head_dim <= kMaxHeadDim &&
           op.heads <= kMaxGroup * op.kv_heads;
}

bool attention_makes_heads(const AttentionTuning& tuning, const Capabilities& device, const op::Attention& op) {
    const auto fits = [&](bool matrices) {
        const uint32_t lanes = row_groups(tuning, op, matrices).lanes;
        return lanes >= static_cast<uint32_t>(op.head_dim) / 4 &&
               row_shared_bytes(lanes, op, matrices, device.cooperative_matrix) <= device.shared_bytes;
    };
    return fits(false) && (tuning.matrix_lanes == 0 || fits(true));
}

uint64_t attention_scratch_bytes(const AttentionTuning& tuning, const op::Attention& op, uint32_t rows) {
    // A single split leaves nothing. More of them are at most as many as fill the device, for any number of rows.
    const uint32_t groups = std::max({tuning.groups, tuning.matrix_groups, tuning.wide_groups});
    const Split listed = split_of(groups, op, rows, true);
    const uint32_t most = std::max(groups / static_cast<uint32_t>(op.kv_heads), listed.slots * listed.splits);
    return scratch_of(op, most).size_bytes;
}

Status record_attention(Recorder& recorder, const AttentionTuning& tuning, const Capabilities& device,
                        const AttentionCall& call) {
    CHECK(attention_supported(call.op, call.cache));
    CHECK(call.heads == nullptr || (call.one_row_each && attention_makes_heads(tuning, device, call.op)));
    const Touched access = touched(tuning, call);
    const PrefillTile tile = fit_tile(tuning, device, call);
    if (call.one_row_each || tile.rows == 0 || max_row_tiles(call.rows) == 0) {
        return record_rows(recorder, tuning, device, call, access, false);
    }
    if (const PrefillTile lanes = fit_lanes(tuning, device, call); lanes.rows != 0) {
        TRY(record_tiles(recorder, lanes_pipeline(lanes, device, call), lanes.rows, call, access));
    } else {
        TRY(record_tiles(recorder, tiles_pipeline(tile, device, call), tile.rows, call, access));
    }
    return record_rows(recorder, tuning, device, call, access, true);
}

}  // namespace tandem::vulkan
