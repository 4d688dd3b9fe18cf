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
        kernels::Linear{
            .weight = weight.dtype,
            .constants =
                {.lanes = kLanes, .outputs = kOutputs, .rows = rows, .tiled = weight.weight.tiled, .experts = false},
            .params = {.weight = weight.weight.addresses(),
                       .x = x.address,
                       .bias = has_bias ? args.in[2].address : 0,
                       .y = args.out.address,
                       .inputs = weight.cols,
                       .outputs = weight.rows,
                       .rows = x.rows,
                       .experts = {.routing = 0, .scales = 0, .used = 1, .stride = 0, .first = 0, .shared_x = 0}}},
        {.reads = std::move(reads),
         .writes = {args.out.access()},
         .groups = {divide_up(weight.rows, kOutputs), divide_up(x.rows, rows), 1}});
}

const Registration<op::Linear> kLinearKernel{record};

// A workgroup for each row and expert of it.
Status record_experts(Recorder& rec, const op::ExpertLinear& op, const Args& args) {
    const Operand& weight = args.in[0];
    const Operand& x = args.in[1];
    const Operand& routing = args.in[2];
    const uint32_t used = routing.cols / 2;
    const auto outputs = static_cast<uint32_t>(op.count);
    return rec.dispatch(kernels::Linear{.weight = weight.dtype,
                                        .constants = {.lanes = kLanes,
                                                      .outputs = kOutputs,
                                                      .rows = 1,
                                                      .tiled = weight.weight.tiled,
                                                      .experts = true},
                                        .params = {.weight = weight.weight.addresses(),
                                                   .x = x.address,
                                                   .bias = op.biased ? args.in[op.bias_at()].address : 0,
                                                   .y = args.out.address,
                                                   .inputs = weight.cols,
                                                   .outputs = outputs,
                                                   .rows = x.rows * used,
                                                   .experts = {.routing = routing.address,
                                                               .scales = op.scaled ? args.in[op.kScale].address : 0,
                                                               .used = used,
                                                               .stride = weight.rows / weight.matrices,
                                                               .first = static_cast<uint32_t>(op.first),
                                                               .shared_x = x.cols == weight.cols ? 1U : 0U}}},
                        {.reads = {x.access(), routing.access()},
                         .writes = {args.out.access()},
                         .groups = {divide_up(outputs, kOutputs), x.rows * used, 1}});
}

const Registration<op::ExpertLinear> kExpertLinearKernel{record_experts};

}  // namespace

}  // namespace tandem::vulkan
