#include "graph/ops.h"
#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

struct AttentionParams {
    VkDeviceAddress q, step, positions, sequence_of_row, cache_k, cache_v, y;
    CacheShapeParams shape;
    uint32_t heads, window;
    float scale, softcap;
};

constexpr int kMaxHeadDim = 512;  // what a workgroup keeps in registers

// One workgroup per row and head.
Status record(Recorder& rec, const op::Attention& op, const Args& args) {
    if (op.head_dim > kMaxHeadDim)
        return fail("attention heads of {}: at most {} are supported", op.head_dim, kMaxHeadDim);
    const DeviceCache::Layer& layer = args.cache->layer(op.cache);
    return rec.dispatch(
        {.pipeline = {.kernel = "attention", .constants = {cache_type(*args.cache)}},
         .push =
             AttentionParams{args.in[0].address, args.step.header, args.step.positions, args.step.sequence_of_row,
                             layer.keys.address, layer.values.address, args.out.address, cache_shape(args, op.cache),
                             static_cast<uint32_t>(op.heads), static_cast<uint32_t>(op.window), op.scale, op.softcap},
         .reads = {args.in[0].access(), whole(layer.keys), whole(layer.values)},
         .writes = {args.out.access()},
         .groups = {static_cast<uint32_t>(op.heads), args.out.rows, 1}});
}

const Registration<op::Attention> kAttentionKernel{record};

}  // namespace

}  // namespace tandem::vulkan
