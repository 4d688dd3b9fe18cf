#include "vulkan/lane_layout.h"

#include <cstring>

#include "base/float16.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

namespace {

struct Params {
    VkDeviceAddress halves, floats, found;
};

// Row * 16 + column of element `i` of a lane: weights are outputs x inputs, activations inputs x rows, sums outputs x
// rows.
enum Matrix : int { weights, activations, sums };
int expected(Matrix matrix, int lane, int i) {
    const int g = lane / 4;
    const int t = lane % 4;
    const int pair = 2 * t + (i & 1);
    switch (matrix) {
        case weights:
        case sums:
            return 16 * (g + (i & 4) * 2) + pair + (i & 2) * 4;
        case activations:
            return 16 * (pair + (i & 2) * 4) + g + (i & 4) * 2;
    }
    return -1;
}

}  // namespace

Result<bool> has_known_lane_layout(Queue& queue, PipelineCache& pipelines) {
    const Capabilities& device = queue.device()->capabilities();
    if (!device.cooperative_matrix || device.min_subgroup > 32 || device.max_subgroup < 32) return false;
    Arena arena(queue.device(), MemoryKind::readback, uint64_t{1} << 16);
    const Buffer halves = TRY(arena.allocate(256 * sizeof(uint16_t)));
    const Buffer floats = TRY(arena.allocate(256 * sizeof(float)));
    const Buffer found = TRY(arena.allocate(3 * 256 * sizeof(int32_t)));
    for (int i = 0; i < 256; ++i) {
        const auto value = static_cast<float>(i);
        const uint16_t half = f32_to_f16(value);
        std::memcpy(halves.mapped + 2 * i, &half, sizeof(half));
        std::memcpy(floats.mapped + 4 * i, &value, sizeof(value));
    }
    const Status ran = queue.run([&](VkCommandBuffer commands) -> Status {
        Recorder recorder(pipelines, commands);
        TRY(recorder.dispatch({.pipeline = {.kernel = "lane_probe.khr", .constants = {16, 16, 16}, .subgroup = 32},
                               .push = Params{halves.address, floats.address, found.address},
                               .reads = {whole(halves), whole(floats)},
                               .writes = {whole(found)}}));
        recorder.finish();
        return Ok{};
    });
    TRY(ran);
    for (Matrix matrix : {weights, activations, sums}) {
        for (int lane = 0; lane < 32; ++lane) {
            for (int i = 0; i < 8; ++i) {
                int32_t element = 0;
                std::memcpy(&element, found.mapped + 4 * ((matrix * 32 + lane) * 8 + i), sizeof(element));
                if (element != expected(matrix, lane, i)) return false;
            }
        }
    }
    return true;
}

}  // namespace tandem::vulkan
