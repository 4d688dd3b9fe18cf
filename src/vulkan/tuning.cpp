#include "vulkan/tuning.h"

namespace tandem::vulkan {

namespace {

// Every workgroup is work for the same few cores, and long loops in one are bounded.
Tuning software_tuning() {
    Tuning tuning;
    tuning.matmul = {
        {.max_rows = 16, .tile_rows = 16, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32, .groups = 1},
        {.max_rows = 0xffffffff, .tile_rows = 32, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32, .groups = 1},
    };
    return tuning;
}

// Measured on an H200.
Tuning nvidia_tuning(uint32_t units) {
    Tuning tuning;
    tuning.chained_rows = 32;
    // A narrow matrix is read by more lanes a row, so that all of them have work.
    tuning.gemv = {
        {.max_outputs = 6144, .max_inputs = 8192, .lanes = 256, .lanes_per_row = 16, .unroll = 8, .groups = 8 * units},
        {.max_outputs = 6144, .lanes = 1024, .lanes_per_row = 16, .unroll = 6, .groups = 4 * units},
        {.max_outputs = 16384, .lanes = 512, .lanes_per_row = 8, .unroll = 7, .groups = 2 * units},
        {.lanes = 128, .lanes_per_row = 8, .rows = 2, .unroll = 4, .groups = 4 * units}};
    // Of so many lanes each has few registers, also for the larger blocks.
    tuning.gated = {.lanes = 1024, .lanes_per_row = 8, .unroll = 3, .groups = 8 * units};
    // Few rows: the weights' way from memory limits, so steps are deep. Many: the matrix units do, so warps are large.
    tuning.matmul = {
        {.max_rows = 8, .tile_rows = 8, .tile_cols = 128, .depth = 128, .warp_rows = 8, .warp_cols = 32},
        {.max_rows = 16, .tile_rows = 16, .tile_cols = 128, .depth = 128, .warp_rows = 16, .warp_cols = 32},
        {.max_rows = 32, .tile_rows = 32, .tile_cols = 128, .depth = 64, .warp_rows = 32, .warp_cols = 32},
        {.max_rows = 64, .tile_rows = 64, .tile_cols = 128, .depth = 64, .warp_rows = 64, .warp_cols = 32},
        {.max_rows = 0xffffffff, .tile_rows = 128, .tile_cols = 128, .warp_rows = 64, .warp_cols = 64},
    };
    for (MatmulTuning& matmul : tuning.matmul) matmul.groups = 2 * units;
    // A warp with more rows decodes weights less often, one with fewer leaves room for more warps. Warps share their
    // inputs where there are not outputs enough for all.
    tuning.stream = {
        {.max_rows = 8, .col_tiles = 2, .row_tiles = 1, .depth_warps = 4, .groups = 8 * units},
        {.max_rows = 16, .col_tiles = 4, .row_tiles = 1, .depth_warps = 2, .groups = 8 * units},
        {.max_rows = 32, .max_outputs = 131072, .col_tiles = 2, .row_tiles = 2, .depth_warps = 4, .groups = 4 * units},
        {.max_rows = 32, .col_tiles = 2, .row_tiles = 2, .groups = 4 * units},
        {.col_tiles = 2, .row_tiles = 4, .groups = 3 * units}};
    tuning.attention.groups = 3 * units;  // what its registers leave room for
    tuning.attention.matrix_lanes = 96;   // few, since their registers leave room for no more, and all rows are to fit
    tuning.attention.matrix_groups = 4 * units;
    tuning.attention.wide_groups = 2 * units;
    tuning.attention.lane_rows = 64;  // with more, too few fit on a core at once
    return tuning;
}

// Few compute units with memory that a handful of waves on each keep busy. Reckoned from compiled code
// (docs/gpu-report.md), not measured: no such chip was at hand.
Tuning modest_tuning(const DeviceInfo& device, uint32_t units) {
    const bool matrices = device.capabilities.cooperative_matrix;
    // RADV waits for loads behind a branch at its end.
    const uint32_t clamped = device.vendor == DeviceInfo::kAmd ? 1 : 0;
    Tuning tuning;
    tuning.gemv = {{.max_outputs = 6144, .lanes = 256, .lanes_per_row = 16, .groups = 8 * units, .clamped = clamped},
                   {.lanes = 256, .lanes_per_row = 8, .groups = 8 * units, .clamped = clamped}};
    tuning.gated = {.lanes = 256, .lanes_per_row = 8, .unroll = 2, .groups = 8 * units, .clamped = clamped};
    if (matrices) {
        tuning.matmul = {
            {.max_rows = 16, .tile_rows = 16, .tile_cols = 128, .depth = 64, .warp_rows = 16, .warp_cols = 32},
            {.max_rows = 32, .tile_rows = 32, .tile_cols = 128, .depth = 64, .warp_rows = 32, .warp_cols = 32},
            {.max_rows = 64, .tile_rows = 64, .tile_cols = 128, .warp_rows = 64, .warp_cols = 32},
            {.max_rows = 0xffffffff, .tile_rows = 128, .tile_cols = 128, .warp_rows = 64, .warp_cols = 64},
        };
    } else {
        // What a lane adds up has to stay in registers.
        tuning.matmul = {
            {.max_rows = 16, .tile_rows = 16, .tile_cols = 64, .depth = 64, .warp_rows = 16, .warp_cols = 32},
            {.max_rows = 0xffffffff, .tile_rows = 64, .tile_cols = 64, .warp_rows = 32, .warp_cols = 32},
        };
    }
    for (MatmulTuning& matmul : tuning.matmul) matmul.groups = 4 * units;
    tuning.attention.groups = 4 * units;
    tuning.attention.tile_warp = device.capabilities.max_subgroup >= 64 ? 64 : 32;
    return tuning;
}

}  // namespace

uint32_t compute_units(const DeviceInfo& device) {
    constexpr uint32_t kOfACard = 132;    // the one that NVIDIA's sizes were measured on
    constexpr uint32_t kIntegrated = 12;  // a Radeon 780M
    if (device.capabilities.compute_units > 0) return device.capabilities.compute_units;
    return device.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? kIntegrated : kOfACard;
}

Tuning default_tuning(const DeviceInfo& device) {
    if (device.software()) return software_tuning();
    const uint32_t units = compute_units(device);
    Tuning tuning = device.vendor == DeviceInfo::kNvidia ? nvidia_tuning(units) : modest_tuning(device, units);
    for (GemvTuning& gemv : tuning.gemv) gemv.lanes = std::min(gemv.lanes, device.capabilities.max_workgroup);
    tuning.gated.lanes = std::min(tuning.gated.lanes, device.capabilities.max_workgroup);
    return tuning;
}

void leave_out_lanes(Tuning& tuning) {
    tuning.stream.clear();
    tuning.attention.matrix_lanes = 0;
    tuning.attention.lane_rows = 0;
}

}  // namespace tandem::vulkan
