#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row.
Status record(Recorder& rec, const op::Embed& op, const Args& args) {
    const DeviceWeight& table = args.in[0].weight;
    return rec.dispatch(
        kernels::Embed{.weight = args.in[0].dtype,
                       .constants = {.tiled = table.tiled},
                       .params = {.table = table.addresses(),
                                  .ids = args.in[1].address,
                                  .out_rows = args.out.address,
                                  .cols = args.out.cols,
                                  .scale = op.scale}},
        {.reads = {args.in[1].access()}, .writes = {args.out.access()}, .groups = {args.out.rows, 1, 1}});
}

const Registration<op::Embed> kEmbedKernel{record};

}  // namespace

}  // namespace tandem::vulkan
