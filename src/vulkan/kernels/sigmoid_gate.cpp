#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::SigmoidGate& /*op*/, const Args& args) {
    const uint32_t count = args.out.elements();
    return rec.dispatch(kernels::SigmoidGate{.params = {.x = args.in[0].address,
                                                        .gate = args.in[1].address,
                                                        .y = args.out.address,
                                                        .width = args.out.cols / args.in[1].cols,
                                                        .count = count}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {divide_up(count, kernels::SigmoidGate::workgroup_size()), 1, 1}});
}

const Registration<op::SigmoidGate> kSigmoidGateKernel{record};

}  // namespace

}  // namespace tandem::vulkan
