#include "vulkan/kernels/norm_act.h"

#include <algorithm>

#include "vulkan/kernel.h"
#include "vulkan/kernels/matmul.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kNoFormat = 4;  // of norm_act.comp

// As many lanes as make the quads of a row with none to spare, in whole subgroups.
struct Lanes {
    uint32_t count;
    uint32_t quads;  // of each
};
Lanes lanes_for(uint32_t quads, const Capabilities& capabilities) {
    const uint32_t most = std::min(capabilities.max_workgroup, 1024U);
    const uint32_t each = divide_up(quads, most);
    const uint32_t subgroup = std::max(capabilities.subgroup, 8U);
    return {divide_up(divide_up(quads, each), subgroup) * subgroup, each};
}

}  // namespace

Status record_norm_act(Recorder& rec, const Capabilities& capabilities, const NormActCall& call) {
    CHECK(call.cols % 32 == 0);
    const Lanes lanes = lanes_for(call.cols / 4, capabilities);
    std::vector<Access> reads = {call.x};
    std::vector<Access> writes;
    if (call.delta) {
        CHECK(call.delta->splits >= 1 && call.delta->splits <= kMaxMatmulSplits);
        reads.push_back(call.delta->partials);
        writes.push_back(call.delta->sum);
    }
    if (call.format) writes.push_back(call.y);
    const NormActCall::Delta delta = call.delta.value_or(NormActCall::Delta{});
    const NormParams post = delta.norm.value_or(NormParams{});
    const NormParams norm = call.norm.value_or(NormParams{});
    return rec.dispatch(
        kernels::NormAct{.constants = {.lanes = lanes.count,
                                       .quads = lanes.quads,
                                       .adds = call.delta.has_value(),
                                       .post = delta.norm.has_value(),
                                       .norm = call.norm.has_value(),
                                       .format = call.format ? static_cast<uint32_t>(*call.format) : kNoFormat,
                                       .splits = delta.splits},
                         .params = {.x = call.x.begin,
                                    .delta = delta.partials.begin,
                                    .post_weight = post.weight,
                                    .sum = delta.sum.begin,
                                    .weight = norm.weight,
                                    .y = call.y.begin,
                                    .rows = call.rows,
                                    .cols = call.cols,
                                    .post_eps = post.eps,
                                    .eps = norm.eps,
                                    .delta_scale = delta.scale,
                                    .sum_scale = delta.sum_scale}},
        {.reads = std::move(reads), .writes = std::move(writes), .groups = {call.rows, 1, 1}});
}

}  // namespace tandem::vulkan
