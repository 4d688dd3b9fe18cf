#include "graph/ops.h"
#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

constexpr int kMaxHeadDim = 512;  // what a workgroup keeps in registers

// One workgroup per row and head.
Status record(Recorder& rec, const op::Attention& op, const Args& args) {
    if (op.head_dim > kMaxHeadDim)
        return fail("attention heads of {}: at most {} are supported", op.head_dim, kMaxHeadDim);
    const DeviceCache::Layer& layer = args.cache->layer(op.cache);
    return rec.dispatch(kernels::Attention{.constants = {.cache_type = cache_type(*args.cache)},
                                           .params = {.q = args.in[0].address,
                                                      .step = args.step.header,
                                                      .positions = args.step.positions,
                                                      .sequence_of_row = args.step.sequence_of_row,
                                                      .cache_k = layer.keys.address,
                                                      .cache_v = layer.values.address,
                                                      .sinks = args.in.size() > 2 ? args.in[2].address : 0,
                                                      .y = args.out.address,
                                                      .shape = cache_shape(args, op.cache),
                                                      .heads = static_cast<uint32_t>(op.heads),
                                                      .window = static_cast<uint32_t>(op.window),
                                                      .scale = op.scale,
                                                      .softcap = op.softcap}},
                        {.reads = {args.in[0].access(), whole(layer.keys), whole(layer.values)},
                         .writes = {args.out.access()},
                         .groups = {static_cast<uint32_t>(op.heads), args.out.rows, 1}});
}

const Registration<op::Attention> kAttentionKernel{record};

}  // namespace

}  // namespace tandem::vulkan
