#include "vulkan/kernels/row_bounds.h"

#include "base/check.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct RowBoundsParams {
    PlaneAddresses weight;
    VkDeviceAddress bounds;
    uint32_t rows, cols;
};

constexpr uint32_t kGroupRows = 16;  // of row_bounds.comp

}  // namespace

Status record_row_bounds(Recorder& recorder, const RowBoundsCall& call) {
    CHECK(call.dtype != DType::f32 && call.rows > 0 && call.rows % 2 == 0 && call.cols % 32 == 0);
    return recorder.dispatch({.pipeline = {.kernel = find_kernel(fmt::format("row_bounds.{}", name(call.dtype))).name,
                                           .constants = {call.weight.tiled ? 1U : 0U}},
                              .push = RowBoundsParams{call.weight.planes, call.bounds.begin, call.rows, call.cols},
                              .writes = {call.bounds},
                              .groups = {divide_up(call.rows, kGroupRows), 1, 1}});
}

}  // namespace tandem::vulkan
