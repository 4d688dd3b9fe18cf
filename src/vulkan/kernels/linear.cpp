#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kLanes = 64;
constexpr uint32_t kOutputs = 4;  // of a workgroup
constexpr uint32_t kRows = 4;     // of a workgroup, where the bucket has more than one

Status record(Recorder& rec, const op::Linear& /*op*/, const Args& args) {
    const Operand& weight = args.in[0];
    const Operand& x = args.in[1];
    const bool has_bias = args.in.size() > 2;
    std::vector<Access> reads = {x.access()};
    if (has_bias) reads.push_back(args.in[2].access());
    const uint32_t rows = x.rows == 1 ? 1 : kRows;
    return rec.dispatch(
        kernels::Linear{.weight = weight.dtype,
                        .constants = {.lanes = kLanes, .outputs = kOutputs, .rows = rows, .tiled = weight.weight.tiled},
                        .params = {.weight = weight.weight.addresses(),
                                   .x = x.address,
                                   .bias = has_bias ? args.in[2].address : 0,
                                   .y = args.out.address,
                                   .inputs = weight.cols,
                                   .outputs = weight.rows,
                                   .rows = x.rows}},
        {.reads = std::move(reads),
         .writes = {args.out.access()},
         .groups = {divide_up(weight.rows, kOutputs), divide_up(x.rows, rows), 1}});
}

const Registration<op::Linear> kLinearKernel{record};

}  // namespace

}  // namespace tandem::vulkan
