#include <algorithm>

#include "vulkan/cache_args.h"
#include "vulkan/kernels/attention.h"

namespace tandem::vulkan {

namespace {

struct Params {
    VkDeviceAddress q, step, positions, sequence_of_row, blocks, cache_k, cache_v, counters, tops, parts, y;
    uint32_t stride, rows, window;
    float scale, softcap;
};

constexpr int kMaxHeadDim = 256;  // what shared memory and registers have room for
constexpr int kMaxGroup = 8;
constexpr uint32_t kMaxSplits = 32;

uint32_t splits_of(const AttentionTuning& tuning, const op::Attention& op, uint32_t rows) {
    return std::clamp(tuning.groups / (rows * static_cast<uint32_t>(op.kv_heads)), 1U, kMaxSplits);
}

// Offsets of the parts of the scratch memory.
struct Scratch {
    uint64_t tops, parts, size_bytes;
};

Scratch scratch_of(const AttentionTuning& tuning, const op::Attention& op, uint32_t rows) {
    constexpr uint64_t kAlignment = 16;
    const uint64_t counters_bytes = uint64_t{rows} * static_cast<uint64_t>(op.kv_heads) * sizeof(uint32_t);
    const uint64_t heads = uint64_t{rows} * static_cast<uint64_t>(op.heads) * splits_of(tuning, op, rows);
    const uint64_t tops = (counters_bytes + kAlignment - 1) / kAlignment * kAlignment;
    const uint64_t parts = (tops + heads * 2 * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
    return {tops, parts, parts + heads * static_cast<uint64_t>(op.head_dim) * sizeof(float)};
}

}  // namespace

bool attention_supported(const op::Attention& op, const DeviceCache& cache) {
    return cache.shape().dtype == DType::f16 && op.head_dim % 32 == 0 && op.head_dim <= kMaxHeadDim &&
           op.heads <= kMaxGroup * op.kv_heads;
}

uint64_t attention_scratch_bytes(const AttentionTuning& tuning, const op::Attention& op, uint32_t rows) {
    return scratch_of(tuning, op, rows).size_bytes;
}

// One workgroup per split, kv head and row. How many positions a split has to read is known to the device alone.
Status record_attention(Recorder& recorder, const AttentionTuning& tuning, const AttentionCall& call) {
    CHECK(attention_supported(call.op, call.cache));
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.op.cache);
    const DeviceCache::Layer& layer = call.cache.layer(call.op.cache);
    const auto heads = static_cast<uint32_t>(call.op.heads);
    const uint32_t splits = splits_of(tuning, call.op, call.rows);
    const Scratch scratch = scratch_of(tuning, call.op, call.rows);
    const uint64_t cols = uint64_t{heads} * shape.head_dim;
    return recorder.dispatch(
        {.pipeline = {.kernel = "attention_decode",
                      .constants = {1, tuning.lanes, shape.kv_heads, heads / shape.kv_heads, shape.head_dim,
                                    shape.block_tokens, splits, static_cast<uint32_t>(call.format)}},
         .push = Params{call.q, call.step.header, call.step.positions, call.step.sequence_of_row, shape.blocks,
                        layer.keys.address, layer.values.address, call.scratch, call.scratch + scratch.tops,
                        call.scratch + scratch.parts, call.y, shape.stride, call.rows,
                        static_cast<uint32_t>(call.op.window), call.op.scale, call.op.softcap},
         .reads = {{call.q, call.rows * cols * sizeof(uint16_t)}, whole(layer.keys), whole(layer.values)},
         .writes = {{call.y, activation_bytes(call.format, call.rows, cols)}, {call.scratch, scratch.size_bytes}},
         .groups = {splits, shape.kv_heads, call.rows}});
}

}  // namespace tandem::vulkan
