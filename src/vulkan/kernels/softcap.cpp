#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct SoftcapParams {
    VkDeviceAddress x, y;
    uint32_t count;
    float cap;
};

Status record(Recorder& rec, const op::Softcap& op, const Args& args) {
    return rec.dispatch({.pipeline = {.kernel = "softcap"},
                         .push = SoftcapParams{args.in[0].address, args.out.address, args.out.elements(), op.cap},
                         .reads = {args.in[0].access()},
                         .writes = {args.out.access()},
                         .groups = {divide_up(args.out.elements(), 256), 1, 1}});
}

const Registration<op::Softcap> kSoftcapKernel{record};

}  // namespace

}  // namespace tandem::vulkan
