#include "vulkan/kernels/row_bounds.h"

#include "base/check.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kGroupRows = 16;  // of row_bounds.comp

}  // namespace

Status record_row_bounds(Recorder& recorder, const RowBoundsCall& call) {
    CHECK(call.dtype != DType::f32 && call.rows > 0 && call.rows % 2 == 0 && call.cols % 32 == 0);
    return recorder.dispatch(kernels::RowBounds{.weight = call.dtype,
                                                .constants = {.tiled = call.weight.tiled},
                                                .params = {.weight = call.weight.addresses(),
                                                           .bounds = call.bounds.begin,
                                                           .rows = call.rows,
                                                           .cols = call.cols}},
                             {.writes = {call.bounds}, .groups = {divide_up(call.rows, kGroupRows), 1, 1}});
}

}  // namespace tandem::vulkan
