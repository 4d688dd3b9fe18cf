#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::Add& /*op*/, const Args& args) {
    const uint32_t count = args.out.elements();
    return rec.dispatch(
        kernels::Add{
            .params = {.a = args.in[0].address, .b = args.in[1].address, .y = args.out.address, .count = count}},
        {.reads = {args.in[0].access(), args.in[1].access()},
         .writes = {args.out.access()},
         .groups = {divide_up(count, kernels::Add::workgroup_size()), 1, 1}});
}

const Registration<op::Add> kAddKernel{record};

}  // namespace

}  // namespace tandem::vulkan
