#include <algorithm>

#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct SampleParams {
    VkDeviceAddress logits, samplings, adjustments, tokens;
    uint32_t vocab;
};

// One workgroup per row. Penalties and biases are put into the logits for the time of the draw, so they are written
// too.
Status record(Recorder& rec, const op::Sample& /*op*/, const Args& args) {
    const uint32_t lanes = std::min(args.capabilities.max_workgroup, 1024U);
    return rec.dispatch({.pipeline = {.kernel = "sample", .constants = {lanes}},
                         .push = SampleParams{args.in[0].address, args.step.sampling, args.step.adjustments,
                                              args.out.address, args.in[0].cols},
                         .reads = {args.in[0].access()},
                         .writes = {args.in[0].access(), args.out.access()},
                         .groups = {args.out.elements(), 1, 1}});
}

const Registration<op::Sample> kSampleKernel{record};

}  // namespace

}  // namespace tandem::vulkan
