#include "vulkan/kernels/heads.h"

#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

struct HeadsParams {
    HeadsBlock heads;
    VkDeviceAddress step, positions, sequence_of_row, blocks, cache_k, cache_v, q;
    uint32_t stride, rows;
    Chain chain = {};
};

}  // namespace

bool heads_supported(const DeviceCache& cache, int layer) {
    return cache.shape().dtype != DType::f32 && cache.layer_shape(layer).head_dim % 4 == 0;
}

HeadsBlock heads_block(const HeadsCall& call) {
    return {call.qkv,
            call.v,
            call.q_norm,
            call.k_norm,
            call.turns,
            call.eps,
            call.rope == nullptr ? 1.0F : call.rope->magnitude};
}

std::array<uint32_t, 4> heads_constants(const HeadsCall& call) {
    const uint32_t pairs = call.rope == nullptr ? 0 : static_cast<uint32_t>(call.rope->inv_freq.size());
    const bool interleaved = call.rope != nullptr && call.rope->layout == op::RopeLayout::interleaved;
    return {call.splits, pairs, interleaved ? 1U : 0U, call.v_splits};
}

std::vector<Access> heads_reads(const HeadsCall& call) {
    const auto shape = call.cache.layer_shape(call.layer);
    const auto kv_heads = static_cast<uint64_t>(shape.kv_heads);
    const uint64_t together = call.heads + (call.v_splits == 0 ? 2 : 1) * kv_heads;
    const uint64_t row_bytes = uint64_t{call.rows} * static_cast<uint64_t>(shape.head_dim) * sizeof(float);
    return {{call.qkv, call.splits * together * row_bytes}, {call.v, call.v_splits * kv_heads * row_bytes}};
}

// One workgroup per head and row: of a single row, all heads are under way at once.
Status record_heads(Recorder& recorder, const Capabilities& capabilities, const HeadsCall& call) {
    CHECK(heads_supported(call.cache, call.layer));
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.layer);
    const DeviceCache::Layer& layer = call.cache.layer(call.layer);
    const uint32_t lanes = divide_up(shape.head_dim / 4, capabilities.subgroup) * capabilities.subgroup;
    const auto [splits, pairs, interleaved, v_splits] = heads_constants(call);
    return recorder.dispatch(
        {.pipeline = {.kernel = "heads",
                      .constants = {cache_type(call.cache), lanes, call.heads, shape.kv_heads, shape.head_dim,
                                    shape.block_tokens, splits, pairs, interleaved, v_splits}},
         .push = HeadsParams{heads_block(call), call.step.header, call.step.positions, call.step.sequence_of_row,
                             shape.blocks, layer.keys.address, layer.values.address, call.q, shape.stride, call.rows},
         .reads = heads_reads(call),
         .writes = {{call.q, uint64_t{call.rows} * call.heads * shape.head_dim * sizeof(uint16_t)},
                    whole(layer.keys),
                    whole(layer.values)},
         .chains = true,
         .groups = {call.heads + 2 * shape.kv_heads, call.rows, 1}});
}

}  // namespace tandem::vulkan
