#include "vulkan/kernels/heads.h"

#include <bit>

#include "vulkan/cache_args.h"

namespace tandem::vulkan {

bool heads_supported(const DeviceCache& cache, int layer) {
    return cache.shape().dtype != DType::f32 && cache.layer_shape(layer).head_dim % 4 == 0;
}

kernels::HeadsBlock heads_block(const HeadsCall& call) {
    return {.qkv = call.qkv,
            .v = call.v,
            .q_norm = call.q_norm,
            .k_norm = call.k_norm,
            .turns = call.turns,
            .eps = call.eps,
            .magnitude = call.rope == nullptr ? 1.0F : call.rope->magnitude};
}

HeadsTurns heads_turns(const HeadsCall& call) {
    if (call.rope == nullptr) return {};
    return {.pairs = static_cast<uint32_t>(call.rope->inv_freq.size()),
            .interleaved = call.rope->layout == op::RopeLayout::interleaved};
}

std::vector<Access> heads_reads(const HeadsCall& call) {
    const auto shape = call.cache.layer_shape(call.layer);
    const auto kv_heads = static_cast<uint64_t>(shape.kv_heads);
    const uint64_t together = call.heads + call.kv_sets * kv_heads;
    const uint64_t row_bytes = uint64_t{call.rows} * static_cast<uint64_t>(shape.head_dim) * sizeof(float);
    return {{call.qkv, call.splits * together * row_bytes}, {call.v, call.v_splits * kv_heads * row_bytes}};
}

// One workgroup per head and row: of a single row, all heads are under way at once.
Status record_heads(Recorder& recorder, const Capabilities& capabilities, const HeadsCall& call) {
    CHECK(heads_supported(call.cache, call.layer));
    const kernels::CacheShape shape = cache_shape(call.cache, call.step, call.layer);
    const DeviceCache::Layer& layer = call.cache.layer(call.layer);
    const uint32_t lanes = divide_up(shape.head_dim / 4, capabilities.subgroup) * capabilities.subgroup;
    const HeadsTurns turns = heads_turns(call);
    return recorder.dispatch(kernels::Heads{.constants = {.cache_type = cache_type(call.cache),
                                                          .invocations = lanes,
                                                          .heads = call.heads,
                                                          .kv_heads = shape.kv_heads,
                                                          .head_dim = shape.head_dim,
                                                          .block_tokens = shape.block_tokens,
                                                          .qkv_splits = call.splits,
                                                          .pairs = turns.pairs,
                                                          .interleaved = turns.interleaved,
                                                          .v_splits = call.v_splits,
                                                          .kv_sets = call.kv_sets,
                                                          .norms_v = call.norms_v,
                                                          .q_growth = std::bit_cast<uint32_t>(call.q_scale.growth),
                                                          .q_every = static_cast<uint32_t>(call.q_scale.every)},
                                            .params = {.heads = heads_block(call),
                                                       .step = call.step.header,
                                                       .positions = call.step.positions,
                                                       .sequence_of_row = call.step.sequence_of_row,
                                                       .blocks = shape.blocks,
                                                       .cache_k = layer.keys.address,
                                                       .cache_v = layer.values.address,
                                                       .q = call.q,
                                                       .stride = shape.stride,
                                                       .rows = call.rows}},
                             {.reads = heads_reads(call),
                              .writes = {{call.q, uint64_t{call.rows} * call.heads * shape.head_dim * sizeof(uint16_t)},
                                         whole(layer.keys),
                                         whole(layer.values)},
                              .groups = {call.heads + (call.kv_sets == 0 ? 0 : 2 * shape.kv_heads), call.rows, 1}});
}

}  // namespace tandem::vulkan
