#include "vulkan/experts.h"

#include <algorithm>

#include "vulkan/kernel.h"
#include "vulkan/kernels/expert_rows.h"
#include "vulkan/kernels/expert_sum.h"
#include "vulkan/kernels/gemv.h"
#include "vulkan/kernels/matmul.h"
#include "vulkan/kernels/norm_act.h"

namespace tandem::vulkan {

namespace {

VkDeviceAddress vector_of(const StageArgs& args, WeightIndex index) {
    return index == kNone ? 0 : args.weight(index).planes[Planes::quants];
}

// An expert has few outputs: a workgroup takes no more of them than a block, so that all of the device has work.
GemvTuning narrow(GemvTuning tuning) {
    tuning.lanes = std::min(tuning.lanes, 32 * tuning.lanes_per_row);
    tuning.rows = 32 * tuning.lanes_per_row / tuning.lanes;
    return tuning;
}

}  // namespace

uint64_t ExpertsStage::x_bytes(uint32_t rows) const {
    return activation_bytes(format(rows), rows, dim);
}

uint64_t ExpertsStage::sorted_bytes(const Tuning& tuning, const Capabilities& device, uint32_t rows) const {
    if (by_gemv(rows)) return 0;
    const auto tile = expert_tuning(tuning, device, rows, used, count);
    return tile ? expert_rows(rows * used, count, tile->tile_rows).size_bytes() : 0;
}

uint64_t ExpertsStage::wide_bytes(uint32_t rows) const {
    return by_gemv(rows) ? 0 : uint64_t{4} * rows * used * ffn_dim;
}

uint64_t ExpertsStage::made_bytes(uint32_t rows) const {
    return activation_bytes(format(rows), uint64_t{rows} * used, ffn_dim);
}

uint64_t ExpertsStage::results_bytes(uint32_t rows) const {
    return by_gemv(rows) ? 0 : uint64_t{4} * rows * used * dim;
}

Status ExpertsStage::record(Recorder& rec, uint32_t rows, const StageArgs& args) const {
    return by_gemv(rows) ? record_row(rec, args) : record_rows(rec, rows, args);
}

Status ExpertsStage::record_row(Recorder& rec, const StageArgs& args) const {
    const Access routes = args.value(routing);
    TRY(record_gemv(
        rec, narrow(args.tuning.gated), args.capabilities,
        {.dtype = gate_dtype,
         .weight = args.weight(gate_up),
         .outputs = ffn_dim,
         .inputs = dim,
         .x = args.value(x),
         .bias = vector_of(args, gate_up_bias),
         .glu = activation,
         .y = args.value(made),
         .experts = GemvCall::Experts{.routing = routes, .used = used, .stride = gate_stride(), .up = up_distance()}}));
    return record_gemv(rec, gemv_tuning(args.tuning, dim, used * ffn_dim, false), args.capabilities,
                       {.dtype = down_dtype,
                        .weight = args.weight(down),
                        .outputs = dim,
                        .inputs = ffn_dim,
                        .x = args.value(made),
                        .bias = vector_of(args, down_bias),
                        .y = args.value(y),
                        .experts = GemvCall::Experts{
                            .routing = routes, .used = used, .stride = dim, .scales = vector_of(args, down_scale)}});
}

Status ExpertsStage::record_rows(Recorder& rec, uint32_t rows, const StageArgs& args) const {
    const Access routes = args.value(routing);
    const MatmulTuning tile = TRY(expert_tuning(args.tuning, args.capabilities, rows, used, count));
    TRY(record_expert_rows(rec, {.routing = routes,
                                 .rows = rows,
                                 .used = used,
                                 .experts = count,
                                 .tile_rows = tile.tile_rows,
                                 .sorted = args.value(sorted)}));
    MatmulCall gated{.dtype = gate_dtype,
                     .weight = args.weight(gate_up),
                     .outputs = 2 * ffn_dim,
                     .inputs = dim,
                     .rows = rows,
                     .x = args.value(x).begin,
                     .bias = vector_of(args, gate_up_bias),
                     .glu = activation,
                     .y = args.value(wide).begin};
    gated.experts = {.count = count,
                     .used = used,
                     .shared_x = true,
                     .stride = gate_stride(),
                     .up = up_distance(),
                     .sorted = args.value(sorted)};
    TRY(record_matmul(rec, args.tuning, args.capabilities, gated));
    TRY(record_norm_act(rec, args.capabilities,
                        {.x = args.value(wide),
                         .rows = rows * used,
                         .cols = ffn_dim,
                         .format = ActivationFormat::f16,
                         .y = args.value(made)}));
    MatmulCall narrowed{.dtype = down_dtype,
                        .weight = args.weight(down),
                        .outputs = dim,
                        .inputs = ffn_dim,
                        .rows = rows,
                        .x = args.value(made).begin,
                        .bias = vector_of(args, down_bias),
                        .glu = {},
                        .y = args.value(results).begin};
    narrowed.experts = {.count = count,
                        .used = used,
                        .shared_x = false,
                        .stride = dim,
                        .up = 0,
                        .scales = vector_of(args, down_scale),
                        .sorted = args.value(sorted)};
    TRY(record_matmul(rec, args.tuning, args.capabilities, narrowed));
    return record_expert_sum(
        rec,
        {.x = args.value(results), .routing = routes, .y = args.value(y), .rows = rows, .cols = dim, .used = used});
}

}  // namespace tandem::vulkan
