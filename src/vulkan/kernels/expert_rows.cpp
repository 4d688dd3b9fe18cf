#include "vulkan/kernels/expert_rows.h"

#include "vulkan/kernel.h"

namespace tandem::vulkan {

Status record_expert_rows(Recorder& rec, const ExpertRowsCall& call) {
    const ExpertRows sorted = expert_rows(call.rows * call.used, call.experts, call.tile_rows);
    return rec.dispatch(kernels::ExpertRows{.constants = {.experts = call.experts},
                                            .params = {.routing = call.routing.begin,
                                                       .tiles = call.sorted.begin,
                                                       .order = call.sorted.begin + sorted.order_at(),
                                                       .slots = sorted.slots,
                                                       .used = call.used,
                                                       .tile_rows = call.tile_rows,
                                                       .tile_count = sorted.tiles}},
                        {.reads = {call.routing}, .writes = {call.sorted}, .groups = {1, 1, 1}});
}

}  // namespace tandem::vulkan
