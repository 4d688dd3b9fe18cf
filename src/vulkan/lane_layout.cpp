#include "vulkan/lane_layout.h"

#include <cstring>

#include "base/float16.h"
#include "vulkan/kernels/contracts.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

namespace {

// Row * 16 + column of element `i` of a lane, or -1 where it has none: weights are 16 outputs x 16 inputs, activations
// inputs x rows, sums outputs x rows. As kernels/lane_matrix.glsl says.
enum Matrix : int { weights, activations, sums };
int expected(Matrix matrix, int rows, int lane, int i) {
    const int g = lane / 4;
    const int t = lane % 4;
    const int pair = 2 * t + (i & 1);
    if (matrix != weights && i >= rows / 2) return -1;
    if (matrix == activations) return 16 * (pair + (i & 2) * 4) + g + (i & 4) * 2;
    if (matrix == sums && rows == 8) return 16 * (g + (i & 2) * 4) + pair;
    return 16 * (g + (i & 4) * 2) + pair + (i & 2) * 4;
}

struct Probe {
    Buffer halves, floats, found;
};

Result<bool> is_known(Queue& queue, PipelineCache& pipelines, const Probe& probe, int rows) {
    const Status ran = queue.run([&](VkCommandBuffer commands) -> Status {
        Recorder recorder(pipelines, commands);
        TRY(recorder.dispatch(
            kernels::LaneProbe{.constants = {.cols = 16, .rows = static_cast<uint32_t>(rows), .depth = 16},
                               .params = {.halves = probe.halves.address,
                                          .floats = probe.floats.address,
                                          .found = probe.found.address}},
            {.reads = {whole(probe.halves), whole(probe.floats)},
             .writes = {whole(probe.found)},
             .subgroup = kernels::LaneProbe::workgroup_size()}));
        recorder.finish();
        return Ok{};
    });
    TRY(ran);
    for (Matrix matrix : {weights, activations, sums}) {
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 8; ++i) {
                int32_t element = 0;
                std::memcpy(&element, probe.found.mapped + 4 * ((matrix * 32 + lane) * 8 + i), sizeof(element));
                if (element != expected(matrix, rows, lane, i)) return false;
            }
        }
    }
    return true;
}

}  // namespace

Result<bool> has_known_lane_layout(Queue& queue, PipelineCache& pipelines) {
    const Capabilities& device = queue.device()->capabilities();
    if (!device.narrow_matrix || device.min_subgroup > 32 || device.max_subgroup < 32) return false;
    Arena arena(queue.device(), MemoryKind::readback, uint64_t{1} << 16);
    Probe probe;
    probe.halves = TRY(arena.allocate(256 * sizeof(uint16_t)));
    probe.floats = TRY(arena.allocate(256 * sizeof(float)));
    probe.found = TRY(arena.allocate(3 * 256 * sizeof(int32_t)));
    for (int i = 0; i < 256; ++i) {
        const auto value = static_cast<float>(i);
        const uint16_t half = f32_to_f16(value);
        std::memcpy(probe.halves.mapped + 2 * i, &half, sizeof(half));
        std::memcpy(probe.floats.mapped + 4 * i, &value, sizeof(value));
    }
    const bool wide = TRY(is_known(queue, pipelines, probe, 16));
    return wide ? is_known(queue, pipelines, probe, 8) : Result<bool>(false);
}

}  // namespace tandem::vulkan
