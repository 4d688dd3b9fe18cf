#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::Glu& op, const Args& args) {
    const uint32_t count = args.out.elements();
    return rec.dispatch(
        kernels::Glu{
            .constants = {.activation = static_cast<uint32_t>(op.activation)},
            .params = {.gate = args.in[0].address, .up = args.in[1].address, .y = args.out.address, .count = count}},
        {.reads = {args.in[0].access(), args.in[1].access()},
         .writes = {args.out.access()},
         .groups = {divide_up(count, kernels::Glu::workgroup_size()), 1, 1}});
}

const Registration<op::Glu> kGluKernel{record};

}  // namespace

}  // namespace tandem::vulkan
