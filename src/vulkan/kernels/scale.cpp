#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

Status record(Recorder& rec, const op::Scale& op, const Args& args) {
    const bool has_bias = args.in.size() > 1;
    std::vector<Access> reads = {args.in[0].access()};
    if (has_bias) reads.push_back(args.in[1].access());
    const uint32_t count = args.out.elements();
    return rec.dispatch(kernels::Scale{.params = {.x = args.in[0].address,
                                                  .bias = has_bias ? args.in[1].address : 0,
                                                  .y = args.out.address,
                                                  .count = count,
                                                  .cols = args.out.cols,
                                                  .factor = op.factor}},
                        {.reads = std::move(reads),
                         .writes = {args.out.access()},
                         .groups = {divide_up(count, kernels::Scale::workgroup_size()), 1, 1}});
}

const Registration<op::Scale> kScaleKernel{record};

}  // namespace

}  // namespace tandem::vulkan
