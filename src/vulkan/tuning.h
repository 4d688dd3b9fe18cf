// Tuning: the sizes of tiles and groups that kernels are made with, as data per family of devices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

// Products of one row and a matrix of up to `max_outputs` x `max_inputs`.
struct GemvTuning {
    uint32_t max_outputs = 0xffffffff;
    uint32_t max_inputs = 0xffffffff;
    uint32_t lanes = 256;        // of a workgroup
    uint32_t lanes_per_row = 8;  // at least 4
    uint32_t rows = 1;           // of the matrix, that a group of lanes makes at once
    uint32_t unroll = 4;         // blocks of a row that a lane has in flight, at most
    uint32_t groups = 528;       // workgroups at most; each takes tiles in turn
    uint32_t staged = 1;         // whether the row is kept in shared memory
    uint32_t clamped = 0;        // whether loads go on past the end: some compilers wait for those behind a branch
};

// Products of a matrix and up to `max_rows` rows (kernels/matmul.h).
struct MatmulTuning {
    uint32_t max_rows = 0;
    uint32_t tile_rows = 0;  // of activations
    uint32_t tile_cols = 0;  // of outputs
    uint32_t depth = 32;     // inputs of a step, a multiple of 32
    uint32_t warp_rows = 0;  // of a tile, that a subgroup makes; multiples of 8 and 32
    uint32_t warp_cols = 0;
    uint32_t stages = 1;    // of shared memory, 1 or 2
    uint32_t groups = 264;  // workgroups that fill the device: narrow products are split along their inputs to reach it

    bool operator==(const MatmulTuning&) const = default;
};

// Products by warps that stream weights (kernels/stream.h), of up to `max_rows` rows and `max_outputs`.
struct StreamTuning {
    uint32_t max_rows = 0xffffffff;
    uint32_t max_outputs = 0xffffffff;
    uint32_t col_tiles = 2;    // of 16 outputs, that a warp makes; even
    uint32_t row_tiles = 1;    // of 16 rows
    uint32_t warps = 4;        // of a workgroup
    uint32_t row_warps = 1;    // of these, side by side along the rows
    uint32_t depth_warps = 1;  // of these, that share the inputs of the same outputs
    uint32_t groups = 528;     // workgroups that fill the device, as in MatmulTuning
};

struct AttentionTuning {
    uint32_t lanes = 128;   // of a workgroup for one row, 64 to 256; a tile is a quarter as many positions
    uint32_t groups = 528;  // workgroups that fill the device: long contexts are split to reach it
    // Of a workgroup where single rows of several sequences go by matrices; 0: never. For devices that StreamTuning is
    // for.
    uint32_t matrix_lanes = 0;
    uint32_t matrix_groups = 528;  // as `groups`, of these
    // The same for heads of more than 128 elements, which take twice the registers.
    uint32_t wide_lanes = 128;
    uint32_t wide_groups = 264;
    // Of many rows of a sequence where scores stay in registers, which is for devices that StreamTuning is for, too.
    uint32_t lane_rows = 0;        // 16 to 128; 0: never
    uint32_t lane_positions = 32;  // 16, 32 or 64; half as many for heads of more than 128 elements
    // The same elsewhere. Both shrink where shared memory is small.
    uint32_t tile_rows = 64;       // 16, 32, 64 or 128
    uint32_t tile_positions = 32;  // as lane_positions
    uint32_t tile_warp = 32;       // lanes that make 16 rows, 32 or 64: of more, each has fewer registers to fill

    bool operator==(const AttentionTuning&) const = default;
};

struct Tuning {
    std::vector<GemvTuning> gemv = {{}};  // by max_outputs and max_inputs; the last takes any number
    GemvTuning gated;                     // of gate and up at once
    uint32_t chained_rows =
        0;  // of a decode step whose dispatches wait for each other by themselves, at most (Recorder::begin_chain)
    std::vector<MatmulTuning> matmul;  // by max_rows; the last takes any number
    std::vector<StreamTuning> stream;  // by max_rows and max_outputs; empty: the device cannot, and matmul does it
    AttentionTuning attention;
};

// The first entry for which `takes` is true; the last takes anything.
template <typename T, typename F>
const T& entry_for(const std::vector<T>& list, const F& takes) {
    CHECK(!list.empty());
    const auto found = std::find_if(list.begin(), list.end(), takes);
    return found == list.end() ? list.back() : *found;
}

// Defaults of the device's family, for as many compute units as it has.
Tuning default_tuning(const DeviceInfo& device);
// Of the device, or where the driver does not say how many there are, of its kind.
uint32_t compute_units(const DeviceInfo& device);

// For a device whose lanes hold other elements of matrices than has_known_lane_layout() knows.
void leave_out_lanes(Tuning& tuning);

}  // namespace tandem::vulkan
