#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct GluParams {
    VkDeviceAddress gate, up, y;
    uint32_t count;
};

Status record(Recorder& rec, const op::Glu& op, const Args& args) {
    return rec.dispatch(
        {.pipeline = {.kernel = "glu", .constants = {static_cast<uint32_t>(op.activation)}},
         .push = GluParams{args.in[0].address, args.in[1].address, args.out.address, args.out.elements()},
         .reads = {args.in[0].access(), args.in[1].access()},
         .writes = {args.out.access()},
         .groups = {divide_up(args.out.elements(), 256), 1, 1}});
}

const Registration<op::Glu> kGluKernel{record};

}  // namespace

}  // namespace tandem::vulkan
