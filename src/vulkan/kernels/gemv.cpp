#include "vulkan/kernels/gemv.h"

#include <algorithm>

#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// As many as the tuning allows, but no more than a lane has, and so that none is left over where that can be had.
uint32_t unroll_for(uint32_t blocks, uint32_t per_row, uint32_t allowed) {
    const uint32_t each = divide_up(blocks, per_row);
    const uint32_t most = std::min(allowed, each);
    if (blocks % per_row != 0) return most;
    for (uint32_t unroll = most; 2 * unroll > most; --unroll) {
        if (each % unroll == 0) return unroll;
    }
    return most;
}

}  // namespace

const GemvTuning& gemv_tuning(const Tuning& tuning, uint32_t outputs, uint32_t inputs, bool gated) {
    if (gated) return tuning.gated;
    return entry_for(tuning.gemv,
                     [&](const GemvTuning& each) { return outputs <= each.max_outputs && inputs <= each.max_inputs; });
}

Status record_gemv(Recorder& rec, const GemvTuning& tuning, const Capabilities& capabilities, const GemvCall& call) {
    CHECK(call.inputs % 32 == 0);
    const uint32_t blocks = call.inputs / 32;
    const GemvCall::Experts experts = call.experts.value_or(GemvCall::Experts{});
    const uint32_t slots = call.experts && !call.glu ? experts.used : 1;  // matrices side by side
    const bool tiled = call.weight.tiled;
    CHECK(tuning.lanes_per_row >= 4);  // so many blocks of a row lie together in tiles
    // and a workgroup has whole octets of rows
    const uint32_t per_row = tiled ? std::min(tuning.lanes_per_row, tuning.lanes / 8) : tuning.lanes_per_row;
    const uint32_t tile = tuning.lanes / per_row * tuning.rows;
    CHECK(!call.glu || (tile % 32 == 0 && call.outputs % 32 == 0));
    kernels::Gemv::Constants constants{.lanes = tuning.lanes,
                                       .lanes_per_row = per_row,
                                       .rows = tuning.rows,
                                       .unroll = unroll_for(slots * blocks, per_row, tuning.unroll),
                                       .blocks = blocks,
                                       .staged = tuning.staged != 0,
                                       .subgroup = capabilities.subgroup,
                                       .glu = call.glu.has_value(),
                                       .activation = call.glu ? static_cast<uint32_t>(*call.glu) : 0U,
                                       .tiled = tiled,
                                       .clamped = false,
                                       .experts = experts.used};
    if (kernels::Gemv::shared_bytes(constants, call.dtype) > capabilities.shared_bytes) constants.staged = false;
    const uint32_t tiles = divide_up(call.outputs, tile);
    const uint32_t groups = std::min(tiles, tuning.groups);
    constants.clamped = tuning.clamped != 0 && tiles > groups;  // with a tile each there is nothing to load ahead
    std::vector<Access> reads = {call.x};
    if (call.experts) reads.push_back(experts.routing);
    return rec.dispatch(kernels::Gemv{.weight = call.dtype,
                                      .constants = constants,
                                      .params = {.weight = call.weight.addresses(),
                                                 .x = call.x.begin,
                                                 .bias = call.bias,
                                                 .y = call.y.begin,
                                                 .outputs = call.outputs,
                                                 .experts = {.routing = experts.routing.begin,
                                                             .scales = experts.scales,
                                                             .stride = experts.stride,
                                                             .up = experts.up}}},
                        {.reads = std::move(reads),
                         .writes = {call.y},
                         .groups = {groups, call.experts && call.glu ? experts.used : 1, 1},
                         .subgroup = required_subgroup(capabilities, tuning.lanes)});
}

}  // namespace tandem::vulkan
