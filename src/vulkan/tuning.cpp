#include "vulkan/tuning.h"

namespace tandem::vulkan {

Tuning default_tuning(const DeviceInfo& device) {
    Tuning tuning;
    if (device.software()) {
        // Every workgroup is work for the same few cores, and long loops in one are bounded.
        tuning.matmul = {
            {.max_rows = 16, .tile_rows = 16, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32, .groups = 1},
            {.max_rows = 0xffffffff, .tile_rows = 32, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32, .groups = 1},
        };
        return tuning;
    }
    // Few rows: the weights' way from memory limits, so steps are deep. Many: the matrix units do, so warps are large.
    tuning.matmul = {
        {.max_rows = 8, .tile_rows = 8, .tile_cols = 128, .depth = 128, .warp_rows = 8, .warp_cols = 32},
        {.max_rows = 16, .tile_rows = 16, .tile_cols = 128, .depth = 128, .warp_rows = 16, .warp_cols = 32},
        {.max_rows = 32, .tile_rows = 32, .tile_cols = 128, .depth = 64, .warp_rows = 32, .warp_cols = 32},
        {.max_rows = 64, .tile_rows = 64, .tile_cols = 128, .depth = 64, .warp_rows = 64, .warp_cols = 32},
        {.max_rows = 0xffffffff, .tile_rows = 128, .tile_cols = 128, .warp_rows = 64, .warp_cols = 64},
    };
    return tuning;
}

}  // namespace tandem::vulkan
