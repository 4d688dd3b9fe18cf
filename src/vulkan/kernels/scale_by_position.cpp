#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row.
Status record(Recorder& rec, const op::ScaleByPosition& op, const Args& args) {
    return rec.dispatch(kernels::ScaleByPosition{.params = {.x = args.in[0].address,
                                                            .positions = args.in[1].address,
                                                            .y = args.out.address,
                                                            .cols = args.out.cols,
                                                            .every = static_cast<uint32_t>(op.every),
                                                            .growth = op.growth}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {args.out.rows, 1, 1}});
}

const Registration<op::ScaleByPosition> kScaleByPositionKernel{record};

}  // namespace

}  // namespace tandem::vulkan
