#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::ExpertSum& /*op*/, const Args& args) {
    const uint32_t count = args.out.elements();
    return rec.dispatch(kernels::ExpertSum{.params = {.x = args.in[0].address,
                                                      .routing = args.in[1].address,
                                                      .y = args.out.address,
                                                      .cols = args.out.cols,
                                                      .used = args.in[1].cols / 2,
                                                      .count = count}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {divide_up(count, kernels::ExpertSum::workgroup_size()), 1, 1}});
}

const Registration<op::ExpertSum> kExpertSumKernel{record};

}  // namespace

}  // namespace tandem::vulkan
