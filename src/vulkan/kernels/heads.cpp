#include "vulkan/kernels/heads.h"

#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

struct HeadsParams {
    VkDeviceAddress qkv, v, q_norm, k_norm, turns, step, positions, sequence_of_row, blocks, cache_k, cache_v, q;
    uint32_t stride, rows;
    float eps, magnitude;
    Chain chain = {};
};

}  // namespace

bool heads_supported(const DeviceCache& cache, int layer) {
    return cache.shape().dtype != DType::f32 && cache.layer_shape(layer).head_dim % 4 == 0;
}

// One workgroup per head and row: of a single row, all heads are under way at once.
Status record_heads(Recorder& recorder, const Capabilities& capabilities, const HeadsCall& call) {
    CHECK(heads_supported(call.cache, call.layer));
    const CacheShapeParams shape = cache_shape(call.cache, call.step, call.layer);
    const DeviceCache::Layer& layer = call.cache.layer(call.layer);
    const uint32_t lanes = divide_up(shape.head_dim / 4, capabilities.subgroup) * capabilities.subgroup;
    const uint32_t heads = call.heads + 2 * shape.kv_heads;
    const uint32_t together = call.v_splits == 0 ? heads : heads - shape.kv_heads;
    const uint32_t pairs = call.rope == nullptr ? 0 : static_cast<uint32_t>(call.rope->inv_freq.size());
    const bool interleaved = call.rope != nullptr && call.rope->layout == op::RopeLayout::interleaved;
    const uint64_t row_bytes = uint64_t{call.rows} * shape.head_dim;
    return recorder.dispatch(
        {.pipeline = {.kernel = "heads",
                      .constants = {cache_type(call.cache), lanes, call.heads, shape.kv_heads, shape.head_dim,
                                    shape.block_tokens, call.splits, pairs, interleaved ? 1U : 0U, call.v_splits}},
         .push =
             HeadsParams{call.qkv, call.v, call.q_norm, call.k_norm, call.turns, call.step.header, call.step.positions,
                         call.step.sequence_of_row, shape.blocks, layer.keys.address, layer.values.address, call.q,
                         shape.stride, call.rows, call.eps, call.rope == nullptr ? 1.0F : call.rope->magnitude},
         .reads = {{call.qkv, call.splits * together * row_bytes * sizeof(float)},
                   {call.v, call.v_splits * shape.kv_heads * row_bytes * sizeof(float)}},
         .writes = {{call.q, call.heads * row_bytes * sizeof(uint16_t)}, whole(layer.keys), whole(layer.values)},
         .chains = true,
         .groups = {heads, call.rows, 1}});
}

}  // namespace tandem::vulkan
