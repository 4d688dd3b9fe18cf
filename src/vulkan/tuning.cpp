#include "vulkan/tuning.h"

namespace tandem::vulkan {

Tuning default_tuning(const DeviceInfo& /*device*/) {
    Tuning tuning;
    tuning.matmul = {
        {.max_rows = 16, .tile_rows = 16, .tile_cols = 64, .warp_rows = 16, .warp_cols = 16},
        {.max_rows = 32, .tile_rows = 32, .tile_cols = 64, .warp_rows = 32, .warp_cols = 16},
        {.max_rows = 64, .tile_rows = 64, .tile_cols = 64, .warp_rows = 32, .warp_cols = 32},
        {.max_rows = 0xffffffff, .tile_rows = 128, .tile_cols = 128, .warp_rows = 64, .warp_cols = 64},
    };
    return tuning;
}

}  // namespace tandem::vulkan
