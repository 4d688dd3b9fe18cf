#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct RmsNormParams {
    VkDeviceAddress x, weight, y;
    uint32_t width;
    float eps;
};

// One workgroup per group of `width` elements.
Status record(Recorder& rec, const op::RmsNorm& op, const Args& args) {
    const uint32_t width = args.in[1].cols;
    return rec.dispatch({.pipeline = {.kernel = "rms_norm"},
                         .push = RmsNormParams{args.in[0].address, args.in[1].address, args.out.address, width, op.eps},
                         .reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {args.out.elements() / width, 1, 1}});
}

const Registration<op::RmsNorm> kRmsNormKernel{record};

}  // namespace

}  // namespace tandem::vulkan
