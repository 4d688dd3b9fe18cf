#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::Softcap& op, const Args& args) {
    const uint32_t count = args.out.elements();
    return rec.dispatch(
        kernels::Softcap{.params = {.x = args.in[0].address, .y = args.out.address, .count = count, .cap = op.cap}},
        {.reads = {args.in[0].access()},
         .writes = {args.out.access()},
         .groups = {divide_up(count, kernels::Softcap::workgroup_size()), 1, 1}});
}

const Registration<op::Softcap> kSoftcapKernel{record};

}  // namespace

}  // namespace tandem::vulkan
