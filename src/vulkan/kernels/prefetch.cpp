#include "vulkan/kernels/prefetch.h"

#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct Params {
    VkDeviceAddress begin, never;
    uint32_t sectors;
};

constexpr uint32_t kSectorBytes = 32;
constexpr uint32_t kGroupSectors = 256 * 4;

}  // namespace

Status record_prefetch(Recorder& rec, const Access& memory) {
    const auto sectors = static_cast<uint32_t>(memory.size_bytes / kSectorBytes);
    if (sectors == 0) return Ok{};
    return rec.dispatch({.pipeline = {.kernel = "prefetch"},
                         .push = Params{memory.begin, memory.begin, sectors},
                         .groups = {divide_up(sectors, kGroupSectors), 1, 1}});
}

}  // namespace tandem::vulkan
