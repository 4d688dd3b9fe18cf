#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per group of `width` elements.
Status record(Recorder& rec, const op::RmsNorm& op, const Args& args) {
    const bool weighted = args.in.size() > 1;
    const uint32_t width = weighted ? args.in[1].cols : static_cast<uint32_t>(op.width);
    std::vector<Access> reads = {args.in[0].access()};
    if (weighted) reads.push_back(args.in[1].access());
    return rec.dispatch(
        kernels::RmsNorm{.params = {.x = args.in[0].address,
                                    .weight = weighted ? args.in[1].address : 0,
                                    .y = args.out.address,
                                    .width = width,
                                    .eps = op.eps}},
        {.reads = std::move(reads), .writes = {args.out.access()}, .groups = {args.out.elements() / width, 1, 1}});
}

const Registration<op::RmsNorm> kRmsNormKernel{record};

}  // namespace

}  // namespace tandem::vulkan
