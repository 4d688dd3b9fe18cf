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
    tuning.chained_rows = device.vendor == DeviceInfo::kNvidia ? 32 : 0;
    // A narrow matrix is read by more lanes a row, so that all of them have work. Measured on an H200.
    tuning.gemv = {
        {.max_outputs = 6144, .max_inputs = 8192, .lanes = 256, .lanes_per_row = 16, .unroll = 8, .groups = 1056},
        {.max_outputs = 6144, .lanes = 1024, .lanes_per_row = 16, .unroll = 6, .groups = 528},
        {.max_outputs = 16384, .lanes = 512, .lanes_per_row = 8, .unroll = 7, .groups = 264},
        {.lanes = 128, .lanes_per_row = 8, .rows = 2, .unroll = 4, .groups = 528}};
    // Of so many lanes each has few registers, also for the larger blocks.
    tuning.gated = {.lanes = 1024, .lanes_per_row = 8, .unroll = 3, .groups = 1056};
    for (GemvTuning& gemv : tuning.gemv) gemv.lanes = std::min(gemv.lanes, device.capabilities.max_workgroup);
    tuning.gated.lanes = std::min(tuning.gated.lanes, device.capabilities.max_workgroup);
    // Few rows: the weights' way from memory limits, so steps are deep. Many: the matrix units do, so warps are large.
    tuning.matmul = {
        {.max_rows = 8, .tile_rows = 8, .tile_cols = 128, .depth = 128, .warp_rows = 8, .warp_cols = 32},
        {.max_rows = 16, .tile_rows = 16, .tile_cols = 128, .depth = 128, .warp_rows = 16, .warp_cols = 32},
        {.max_rows = 32, .tile_rows = 32, .tile_cols = 128, .depth = 64, .warp_rows = 32, .warp_cols = 32},
        {.max_rows = 64, .tile_rows = 64, .tile_cols = 128, .depth = 64, .warp_rows = 64, .warp_cols = 32},
        {.max_rows = 0xffffffff, .tile_rows = 128, .tile_cols = 128, .warp_rows = 64, .warp_cols = 64},
    };
    // A warp with more rows decodes weights less often, one with fewer leaves room for more warps. Warps share their
    // inputs where there are not outputs enough for all.
    tuning.stream = {{.max_rows = 8, .col_tiles = 2, .row_tiles = 1, .depth_warps = 4, .groups = 1056},
                     {.max_rows = 16, .col_tiles = 4, .row_tiles = 1, .depth_warps = 2, .groups = 1056},
                     {.max_rows = 32, .max_outputs = 131072, .col_tiles = 2, .row_tiles = 2, .depth_warps = 4},
                     {.max_rows = 32, .col_tiles = 2, .row_tiles = 2},
                     {.col_tiles = 2, .row_tiles = 4, .groups = 396}};  // three a core
    tuning.attention.groups = 396;       // three a core: what its registers leave room for
    tuning.attention.matrix_lanes = 96;  // few, since their registers leave room for no more, and all rows are to fit
    tuning.attention.lane_rows = 64;     // with more, too few fit on a core at once
    return tuning;
}

void leave_out_lanes(Tuning& tuning) {
    tuning.stream.clear();
    tuning.attention.matrix_lanes = 0;
    tuning.attention.lane_rows = 0;
}

}  // namespace tandem::vulkan
