#include "vulkan/kernels/gemv.h"

#include <algorithm>

#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct Params {
    DeviceWeight weight;
    VkDeviceAddress x, bias, y;
    uint32_t outputs;
};

constexpr uint32_t kSharedReserve = 4096;  // for what is in shared memory beside x

}  // namespace

Status record_gemv(Recorder& rec, const GemvTuning& tuning, const Capabilities& capabilities, const GemvCall& call) {
    CHECK(call.inputs % 32 == 0);
    const uint32_t blocks = call.inputs / 32;
    const uint32_t tile = tuning.lanes / tuning.lanes_per_row * tuning.rows;
    CHECK(!call.glu || (tile % 32 == 0 && call.outputs % 32 == 0));
    const bool staged = tuning.staged && blocks * 40 + kSharedReserve <= capabilities.shared_bytes;
    const uint32_t groups = std::min(divide_up(call.outputs, tile), tuning.groups);
    return rec.dispatch({.pipeline = {.kernel = weight_kernel("gemv", call.dtype),
                                      .constants = {tuning.lanes, tuning.lanes_per_row, tuning.rows, tuning.unroll,
                                                    blocks, staged ? 1U : 0U, capabilities.subgroup, call.glu ? 1U : 0U,
                                                    call.glu ? static_cast<uint32_t>(*call.glu) : 0U}},
                         .push = Params{call.weight, call.x.begin, call.bias, call.y.begin, call.outputs},
                         .reads = {call.x},
                         .writes = {call.y},
                         .groups = {groups, 1, 1}});
}

}  // namespace tandem::vulkan
