#include "graph/ops.h"
#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

struct KvWriteParams {
    VkDeviceAddress k, v, step, positions, sequence_of_row, cache_k, cache_v;
    CacheShapeParams shape;
};

// One workgroup per row.
Status record(Recorder& rec, const op::KvWrite& op, const Args& args) {
    const DeviceCache::Layer& layer = args.cache->layer(op.cache);
    return rec.dispatch({.pipeline = {.kernel = "kv_write", .constants = {cache_type(*args.cache)}},
                         .push = KvWriteParams{args.in[0].address, args.in[1].address, args.step.header,
                                               args.step.positions, args.step.sequence_of_row, layer.keys.address,
                                               layer.values.address, cache_shape(args, op.cache)},
                         .reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {whole(layer.keys), whole(layer.values)},
                         .groups = {args.in[0].rows, 1, 1}});
}

const Registration<op::KvWrite> kKvWriteKernel{record};

}  // namespace

}  // namespace tandem::vulkan
