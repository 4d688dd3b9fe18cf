#include "graph/ops.h"
#include "vulkan/cache_args.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row.
Status record(Recorder& rec, const op::KvWrite& op, const Args& args) {
    const DeviceCache::Layer& layer = args.cache->layer(op.cache);
    return rec.dispatch(kernels::KvWrite{.constants = {.cache_type = cache_type(*args.cache)},
                                         .params = {.k = args.in[0].address,
                                                    .v = args.in[1].address,
                                                    .step = args.step.header,
                                                    .positions = args.step.positions,
                                                    .sequence_of_row = args.step.sequence_of_row,
                                                    .cache_k = layer.keys.address,
                                                    .cache_v = layer.values.address,
                                                    .shape = cache_shape(args, op.cache)}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {whole(layer.keys), whole(layer.values)},
                         .groups = {args.in[0].rows, 1, 1}});
}

const Registration<op::KvWrite> kKvWriteKernel{record};

}  // namespace

}  // namespace tandem::vulkan
