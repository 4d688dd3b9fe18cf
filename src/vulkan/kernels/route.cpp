#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// A workgroup of one subgroup for each row.
Status record(Recorder& rec, const op::Route& op, const Args& args) {
    const bool biased = args.in.size() > 1;
    return rec.dispatch(
        kernels::Route{.constants = {.lanes = args.capabilities.subgroup,
                                     .experts = args.in[0].cols,
                                     .used = static_cast<uint32_t>(op.used),
                                     .score = static_cast<uint32_t>(op.score),
                                     .normalize = op.normalize,
                                     .groups = static_cast<uint32_t>(op.groups),
                                     .used_groups = static_cast<uint32_t>(op.used_groups)},
                       .params = {.logits = args.in[0].address,
                                  .bias = biased ? args.in[1].address : 0,
                                  .y = args.out.address,
                                  .scale = op.scale}},
        {.reads = {args.in[0].access()}, .writes = {args.out.access()}, .groups = {args.out.rows, 1, 1}});
}

const Registration<op::Route> kRouteKernel{record};

}  // namespace

}  // namespace tandem::vulkan
