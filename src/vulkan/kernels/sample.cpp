#include <algorithm>

#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row. Penalties and biases are put into the logits for the time of the draw, so they are written
// too.
Status record(Recorder& rec, const op::Sample& /*op*/, const Args& args) {
    const uint32_t lanes = std::min(args.capabilities.max_workgroup, 1024U);
    return rec.dispatch(kernels::Sample{.constants = {.lanes = lanes},
                                        .params = {.logits = args.in[0].address,
                                                   .samplings = args.step.sampling,
                                                   .adjustments = args.step.adjustments,
                                                   .tokens = args.out.address,
                                                   .vocab = args.in[0].cols}},
                        {.reads = {args.in[0].access()},
                         .writes = {args.in[0].access(), args.out.access()},
                         .groups = {args.out.elements(), 1, 1}});
}

const Registration<op::Sample> kSampleKernel{record};

}  // namespace

}  // namespace tandem::vulkan
