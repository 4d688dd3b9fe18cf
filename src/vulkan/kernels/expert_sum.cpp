#include "vulkan/kernels/expert_sum.h"

#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

Status record_expert_sum(Recorder& rec, const ExpertSumCall& call) {
    const uint32_t count = call.rows * call.cols;
    return rec.dispatch(kernels::ExpertSum{.params = {.x = call.x.begin,
                                                      .routing = call.routing.begin,
                                                      .y = call.y.begin,
                                                      .cols = call.cols,
                                                      .used = call.used,
                                                      .count = count}},
                        {.reads = {call.x, call.routing},
                         .writes = {call.y},
                         .groups = {divide_up(count, kernels::ExpertSum::workgroup_size()), 1, 1}});
}

namespace {

Status record(Recorder& rec, const op::ExpertSum& /*op*/, const Args& args) {
    return record_expert_sum(rec, {.x = args.in[0].access(),
                                   .routing = args.in[1].access(),
                                   .y = args.out.access(),
                                   .rows = args.out.rows,
                                   .cols = args.out.cols,
                                   .used = args.in[1].cols / 2});
}

const Registration<op::ExpertSum> kExpertSumKernel{record};

}  // namespace

}  // namespace tandem::vulkan
