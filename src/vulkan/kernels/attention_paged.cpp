#include <algorithm>
#include <bit>

#include "vulkan/cache_args.h"
#include "vulkan/kernels/attention.h"

namespace tandem::vulkan {

namespace {

constexpr int kMaxHeadDim = 512;    // what shared memory has room for
constexpr int kWholeHeadDim = 256;  // what registers have room for: of more, several workgroups make a part each
constexpr int kPartDim = 128;
constexpr int kMaxGroup = 8;
constexpr uint32_t kWide = 128;  // elements of a head; with more it takes twice the registers
constexpr uint32_t kMaxSplits = 32;
constexpr uint64_t kCounterBytes = 65536;    // as attention_row.glsl has it
constexpr uint32_t kFragment = 16;           // what sizes are multiples of: rows and columns of most matrices
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

// Of a kernel of single rows, by what its size depends on; record_rows() fills in the rest.
template <typename Kernel>
typename Kernel::Constants row_constants(const op::Attention& op, uint32_t lanes, uint32_t splits, bool makes) {
    return {.cache_type = 0,
            .invocations = lanes,
            .kv_heads = static_cast<uint32_t>(op.kv_heads),
            .group = static_cast<uint32_t>(op.heads / op.kv_heads),
            .head_dim = static_cast<uint32_t>(op.head_dim),
            .block_tokens = 0,
            .splits = splits,
            .format = 0,
            .listed = false,
            .makes = makes,
            .qkv_splits = 1,
            .pairs = 0,
            .interleaved = false,
            .v_splits = 0,
            .kv_sets = 2,
            .norms_v = false,
            .q_growth = 0,
            .q_every = 1,
            .sinks = false};
}
using Rows = kernels::AttentionDecode;
using MatrixRows = kernels::AttentionDecodeMatrix;

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
    uint32_t rows, positions, warp;
};

// Workgroups that make a head of a tile.
uint32_t parts_of(const op::Attention& op) {
    return op.head_dim <= kWholeHeadDim ? 1 : static_cast<uint32_t>(op.head_dim / kPartDim);
}

using Tiles = kernels::AttentionPrefill;
using LaneTiles = kernels::AttentionLanes;

// Lanes of a subgroup that makes 16 rows. Without matrices that is only how the work is shared.
uint32_t tile_warp(const AttentionTuning& tuning, const Capabilities& device) {
    return device.cooperative_matrix ? std::clamp(tuning.tile_warp, device.min_subgroup, device.max_subgroup)
                                     : tuning.tile_warp;
}

Tiles::Constants tile_constants(const PrefillTile& tile, const Capabilities& device, const AttentionCall& call) {
    const kernels::CacheShape shape = cache_shape(call.cache, call.step, call.op.cache);
    return {.cache_type = cache_type(call.cache),
            .lanes = tile.rows / device.fragment.rows * tile.warp,
            .subgroup = tile.warp,
            .fragment_cols = device.fragment.cols,
            .fragment_rows = device.fragment.rows,
            .fragment_depth = device.fragment.depth,
            .kv_heads = shape.kv_heads,
            .group = static_cast<uint32_t>(call.op.heads) / shape.kv_heads,
            .head_dim = shape.head_dim,
            .block_tokens = shape.block_tokens,
            .rows = tile.rows,
            .positions = tile.positions,
            .format = static_cast<uint32_t>(call.format),
            .queries_aside = !device.cooperative_matrix || shape.head_dim > kWide,  // registers have no room
            .sinks = call.sinks != 0,
            .parts = parts_of(call.op)};
}

LaneTiles::Constants lane_constants(const PrefillTile& tile, const AttentionCall& call) {
    const kernels::CacheShape shape = cache_shape(call.cache, call.step, call.op.cache);
    return {.cache_type = cache_type(call.cache),
            .invocations = tile.rows / kFragment * tile.warp,
            .kv_heads = shape.kv_heads,
            .group = static_cast<uint32_t>(call.op.heads) / shape.kv_heads,
            .head_dim = shape.head_dim,
            .block_tokens = shape.block_tokens,
            .positions = tile.positions,
            .format = static_cast<uint32_t>(call.format),
            .sinks = call.sinks != 0};
}

uint32_t positions_of(uint32_t tuned, const op::Attention& op) {
    return static_cast<uint32_t>(op.head_dim) > kWide ? std::max(tuned / 2, kFragment) : tuned;
}

// Where nothing fits: no rows.
PrefillTile fit_tile(const AttentionTuning& tuning, const Capabilities& device, const AttentionCall& call) {
    PrefillTile tile{tuning.tile_rows, positions_of(tuning.tile_positions, call.op), tile_warp(tuning, device)};
    const auto fits = [&] { return Tiles::shared_bytes(tile_constants(tile, device, call)) <= device.shared_bytes; };
    while (!fits() && tile.rows > kFragment) tile.rows /= 2;
    while (!fits() && tile.positions > kFragment) tile.positions /= 2;
    const bool whole_blocks = call.format != ActivationFormat::q8 || tile.positions % 32 == 0;
    return fits() && whole_blocks ? tile : PrefillTile{};
}

// The same for attention_lanes.comp.
PrefillTile fit_lanes(const AttentionTuning& tuning, const Capabilities& device, const AttentionCall& call) {
    const auto head_dim = static_cast<uint32_t>(call.op.head_dim);
    if (tuning.lane_rows == 0 || call.format == ActivationFormat::q8 || head_dim % 64 != 0 || parts_of(call.op) > 1)
        return {};
    const PrefillTile tile{tuning.lane_rows, positions_of(tuning.lane_positions, call.op), kPreferredWarp};
    const uint32_t shared_bytes = LaneTiles::shared_bytes(lane_constants(tile, call), matrices_of(device));
    return shared_bytes <= device.shared_bytes ? tile : PrefillTile{};
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

kernels::TileParams tile_params(const AttentionCall& call) {
    const kernels::CacheShape shape = cache_shape(call.cache, call.step, call.op.cache);
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    return {.q = call.q,
            .step = call.step.header,
            .row_tiles = call.step.row_tiles,
            .blocks = shape.blocks,
            .cache_k = layer.keys.address,
            .cache_v = layer.values.address,
            .y = call.y,
            .sinks = call.sinks,
            .stride = shape.stride,
            .rows = call.rows,
            .window = static_cast<uint32_t>(call.op.window),
            .scale = call.op.scale,
            .softcap = call.op.softcap};
}

// One workgroup per head, or part of one, and tile of rows.
Status record_tiles(Recorder& recorder, const PrefillTile& tile, const PrefillTile& lanes, const Capabilities& device,
                    const AttentionCall& call, const Touched& access) {
    const bool by_lanes = lanes.rows != 0;
    const kernels::TileParams params = tile_params(call);
    const kernels::Matrix matrix = matrices_of(device);
    return recorder.dispatch(
        by_lanes
            ? KernelCall(LaneTiles{.matrix = matrix, .constants = lane_constants(lanes, call), .params = params})
            : KernelCall(Tiles{.matrix = matrix, .constants = tile_constants(tile, device, call), .params = params}),
        {.reads = access.reads,
         .writes = access.writes,
         .groups = {static_cast<uint32_t>(call.op.heads) * parts_of(call.op),
                    divide_up(kTileRows, by_lanes ? lanes.rows : tile.rows), max_row_tiles(call.rows)},
         .subgroup = device.cooperative_matrix ? (by_lanes ? lanes : tile).warp : 0});
}

// What attention_decode_matrix.comp can do, within the shared memory that leaves room for several workgroups.
bool fits_matrices(const AttentionTuning& tuning, const AttentionCall& call) {
    constexpr uint32_t kTilePositions = 16;
    constexpr uint32_t kMostShared = 18432;
    const uint32_t lanes = row_groups(tuning, call.op, true).lanes;
    return tuning.matrix_lanes != 0 && call.rows > 1 && call.cache.shape().dtype == DType::f16 &&
           call.op.head_dim % 128 == 0 && parts_of(call.op) == 1 &&
           call.cache.shape().block_tokens % kTilePositions == 0 &&
           MatrixRows::shared_bytes(row_constants<MatrixRows>(call.op, lanes, 1, false), kernels::Matrix::khr) <=
               kMostShared;
}

kernels::RowParams row_params(const AttentionCall& call, const Scratch& scratch) {
    const kernels::CacheShape shape = cache_shape(call.cache, call.step, call.op.cache);
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    return {.q = call.heads == nullptr ? call.q : call.heads_block,
            .step = call.step.header,
            .positions = call.step.positions,
            .sequence_of_row = call.step.sequence_of_row,
            .single_rows = call.step.single_rows,
            .blocks = shape.blocks,
            .cache_k = layer.keys.address,
            .cache_v = layer.values.address,
            .counters = call.scratch,
            .parts = call.sinks != 0 ? call.sinks : call.scratch + scratch.parts,
            .y = call.y,
            .stride = shape.stride,
            .rows = call.rows,
            .window = static_cast<uint32_t>(call.op.window),
            .scale = call.op.scale,
            .softcap = call.op.softcap};
}

// One workgroup per split, kv head and row. How many positions a split has to read is known to the device alone.
// `listed`: only the step's single rows.
Status record_rows(Recorder& recorder, const AttentionTuning& tuning, const Capabilities& device,
                   const AttentionCall& call, const Touched& access, bool listed) {
    const auto kv_heads = static_cast<uint32_t>(call.op.kv_heads);
    const bool matrices = fits_matrices(tuning, call);
    const RowGroups by = row_groups(tuning, call.op, matrices);
    const Split split = split_of(by.groups, call.op, call.rows, listed);
    const Scratch scratch = scratch_of(call.op, uint64_t{split.slots} * split.splits);
    CHECK(split.splits == 1 || uint64_t{split.slots} * kv_heads * sizeof(uint32_t) <= kCounterBytes);
    const auto filled_in = [&](auto constants) {
        constants.cache_type = cache_type(call.cache);
        constants.block_tokens = static_cast<uint32_t>(call.cache.shape().block_tokens);
        constants.format = static_cast<uint32_t>(call.format);
        constants.listed = listed;
        constants.sinks = call.sinks != 0;
        if (call.heads == nullptr) return constants;
        const HeadsTurns turns = heads_turns(*call.heads);
        constants.qkv_splits = call.heads->splits;
        constants.pairs = turns.pairs;
        constants.interleaved = turns.interleaved;
        constants.v_splits = call.heads->v_splits;
        constants.kv_sets = call.heads->kv_sets;
        constants.norms_v = call.heads->norms_v;
        constants.q_growth = std::bit_cast<uint32_t>(call.heads->q_scale.growth);
        constants.q_every = static_cast<uint32_t>(call.heads->q_scale.every);
        return constants;
    };
    const bool makes = call.heads != nullptr;
    const kernels::RowParams params = row_params(call, scratch);
    return recorder.dispatch(
        matrices ? KernelCall(MatrixRows{
                       .matrix = matrices_of(device),
                       .constants = filled_in(row_constants<MatrixRows>(call.op, by.lanes, split.splits, makes)),
                       .params = params})
                 : KernelCall(Rows{.constants = filled_in(row_constants<Rows>(call.op, by.lanes, split.splits, makes)),
                                   .params = params}),
        {.reads = access.reads,
         .writes = listed ? std::vector<Access>{} : access.writes,
         .groups = {kv_heads, split.slots, split.splits},
         .subgroup = matrices && device.cooperative_matrix ? kPreferredWarp : 0,
         .chains = call.one_row_each});
}

}  // namespace

bool attention_supported(const AttentionTuning& tuning, const Capabilities& device, const op::Attention& op,
                         const DeviceCache& cache) {
    const bool in_parts = op.head_dim <= kMaxHeadDim && op.head_dim % kPartDim == 0;
    const bool fits =
        op.head_dim % 32 == 0 && (op.head_dim <= kWholeHeadDim || in_parts) && op.heads <= kMaxGroup * op.kv_heads;
    return fits && cache.shape().dtype != DType::f32 &&
           Rows::shared_bytes(row_constants<Rows>(op, tuning.lanes, kMaxSplits, false)) <= device.shared_bytes;
}

bool attention_makes_heads(const AttentionTuning& tuning, const Capabilities& device, const op::Attention& op) {
    const auto shared_bytes = [&](uint32_t lanes, bool matrices) {
        if (!matrices) return Rows::shared_bytes(row_constants<Rows>(op, lanes, kMaxSplits, true));
        return MatrixRows::shared_bytes(row_constants<MatrixRows>(op, lanes, kMaxSplits, true), matrices_of(device));
    };
    const auto fits = [&](bool matrices) {
        const uint32_t lanes = row_groups(tuning, op, matrices).lanes;
        return lanes >= static_cast<uint32_t>(op.head_dim) / 4 && shared_bytes(lanes, matrices) <= device.shared_bytes;
    };
    return fits(false) && (tuning.matrix_lanes == 0 || parts_of(op) > 1 || fits(true));
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
    CHECK(attention_supported(tuning, device, call.op, call.cache));
    CHECK(call.heads == nullptr || (call.one_row_each && attention_makes_heads(tuning, device, call.op)));
    const Touched access = touched(tuning, call);
    const PrefillTile tile = fit_tile(tuning, device, call);
    if (call.one_row_each || tile.rows == 0 || max_row_tiles(call.rows) == 0) {
        return record_rows(recorder, tuning, device, call, access, false);
    }
    TRY(record_tiles(recorder, tile, fit_lanes(tuning, device, call), device, call, access));
    return record_rows(recorder, tuning, device, call, access, true);
}

}  // namespace tandem::vulkan
