#include "vulkan/kernels/norm_act.h"

#include <algorithm>

#include "vulkan/kernel.h"
#include "vulkan/kernels/matmul.h"

namespace tandem::vulkan {

namespace {

struct NormActParams {
    VkDeviceAddress x, delta, post_weight, sum, weight, y;
    uint32_t rows, cols;
    float post_eps, eps;
    Chain chain = {};
};

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
    NormActParams params{.x = call.x.begin,
                         .delta = 0,
                         .post_weight = 0,
                         .sum = 0,
                         .weight = call.norm ? call.norm->weight : 0,
                         .y = call.y.begin,
                         .rows = call.rows,
                         .cols = call.cols,
                         .post_eps = 0,
                         .eps = call.norm ? call.norm->eps : 0};
    std::vector<Access> reads = {call.x};
    std::vector<Access> writes;
    if (call.delta) {
        params.delta = call.delta->partials.begin;
        CHECK(call.delta->splits >= 1 && call.delta->splits <= kMaxMatmulSplits);
        params.sum = call.delta->sum.begin;
        if (call.delta->norm) {
            params.post_weight = call.delta->norm->weight;
            params.post_eps = call.delta->norm->eps;
        }
        reads.push_back(call.delta->partials);
        writes.push_back(call.delta->sum);
    }
    if (call.format) writes.push_back(call.y);
    const bool post = call.delta && call.delta->norm;
    const uint32_t format = call.format ? static_cast<uint32_t>(*call.format) : kNoFormat;
    return rec.dispatch({.pipeline = {.kernel = "norm_act",
                                      .constants = {lanes.count, lanes.quads, call.delta ? 1U : 0U, post ? 1U : 0U,
                                                    call.norm ? 1U : 0U, format, call.delta ? call.delta->splits : 1U}},
                         .push = params,
                         .reads = std::move(reads),
                         .writes = std::move(writes),
                         .chains = true,
                         .groups = {call.rows, 1, 1}});
}

}  // namespace tandem::vulkan
