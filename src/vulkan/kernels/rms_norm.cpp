#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per group of `width` elements.
Status record(Recorder& rec, const op::RmsNorm& op, const Args& args) {
    const uint32_t width = args.in[1].cols;
    return rec.dispatch(kernels::RmsNorm{.params = {.x = args.in[0].address,
                                                    .weight = args.in[1].address,
                                                    .y = args.out.address,
                                                    .width = width,
                                                    .eps = op.eps}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {args.out.elements() / width, 1, 1}});
}

const Registration<op::RmsNorm> kRmsNormKernel{record};

}  // namespace

}  // namespace tandem::vulkan
