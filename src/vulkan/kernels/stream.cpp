#include "vulkan/kernels/stream.h"

#include <algorithm>

#include "base/check.h"
#include "vulkan/activations.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kWarpLanes = 32;
constexpr uint32_t kMatrixOutputs = 16;
constexpr uint32_t kMatrixDepth = 16;
constexpr uint32_t kPairBase = 0x64006400;  // kernels/weights_f16.glsl
constexpr uint32_t kMinSplitWindows = 4;    // below, starting up takes as long as the work

const StreamTuning& choose(const Tuning& tuning, const MatmulCall& call) {
    return entry_for(tuning.stream, [&](const StreamTuning& each) {
        return call.rows <= each.max_rows && call.outputs <= each.max_outputs;
    });
}

struct Grid {
    uint32_t row_groups, col_groups;
};
Grid grid_of(const StreamTuning& t, const MatmulCall& call) {
    const uint32_t results = call.glu ? call.outputs / 2 : call.outputs;
    const uint32_t result_tiles = t.col_tiles / (call.glu ? 2 : 1);
    return {divide_up(call.rows, tile_rows(call.rows) * t.row_tiles * t.row_warps),
            divide_up(results, kMatrixOutputs * result_tiles * (t.warps / (t.row_warps * t.depth_warps)))};
}

// Into how many parts the inputs go where there are more workgroups than the device has room for at once: a last round
// that is hardly filled takes as long as the others, and shorter workgroups fill it better.
uint32_t splits_for_rounds(uint32_t room, uint32_t groups, uint32_t windows, uint32_t most) {
    constexpr uint32_t kRoundWindows = 3;  // what beginning and end of a round take
    constexpr double kWorth = 0.95;        // results are written and read as often as there are splits
    const auto cost = [&](uint32_t splits) {
        return divide_up(groups * splits, room) * (divide_up(windows, splits) + kRoundWindows);
    };
    uint32_t best = 1;
    for (uint32_t splits = 2; splits <= most; ++splits) {
        if (cost(splits) < kWorth * cost(best)) best = splits;
    }
    return best;
}

// Windows of kMatrixInputs that each split takes.
uint32_t split_windows(const StreamTuning& t, const MatmulCall& call) {
    const uint32_t windows = call.inputs / kMatrixInputs;
    if (call.glu) return windows;
    const Grid grid = grid_of(t, call);
    const uint32_t groups = grid.row_groups * grid.col_groups;
    const uint32_t most = std::clamp(windows / kMinSplitWindows, 1U, call.max_splits);
    return divide_up(windows, groups < t.groups ? std::clamp(t.groups / groups, 1U, most)
                                                : splits_for_rounds(t.groups, groups, windows, most));
}

}  // namespace

uint32_t stream_splits(const Tuning& tuning, const MatmulCall& call) {
    return divide_up(call.inputs / kMatrixInputs, split_windows(choose(tuning, call), call));
}

Status record_stream(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call) {
    CHECK(call.dtype != DType::f32 && call.inputs > 0 && call.inputs % kMatrixInputs == 0);
    CHECK(call.rows > 0 && call.outputs > 0 && (!call.glu || call.outputs % 2 == 0));
    const StreamTuning& t = choose(tuning, call);
    CHECK(t.warps % (t.row_warps * t.depth_warps) == 0 && t.col_tiles % 2 == 0);
    const Grid grid = grid_of(t, call);
    const uint32_t splits = stream_splits(tuning, call);
    const uint64_t results = call.glu ? call.outputs / 2 : call.outputs;
    CHECK(!call.weight.tiled || results % kMatrixOutputs == 0);
    const uint64_t x_bytes = activation_bytes(ActivationFormat::tiles, call.rows, call.inputs);
    CHECK(!call.y_tiles || (call.glu && call.bias == 0 && call.weight.bounds != 0 && results % kMatrixInputs == 0));
    const uint64_t y_bytes = call.y_tiles ? activation_bytes(ActivationFormat::tiles, call.rows, results)
                                          : splits * call.rows * results * sizeof(float);
    return recorder.dispatch(kernels::Stream{.weight = call.dtype,
                                             .matrix = matrices_of(device),
                                             .constants = {.invocations = t.warps * kWarpLanes,
                                                           .cols = kMatrixOutputs,
                                                           .rows = tile_rows(call.rows),
                                                           .depth = kMatrixDepth,
                                                           .col_tiles = t.col_tiles,
                                                           .row_tiles = t.row_tiles,
                                                           .row_warps = t.row_warps,
                                                           .glu = call.glu ? 1 + static_cast<uint32_t>(*call.glu) : 0U,
                                                           .depth_warps = t.depth_warps,
                                                           .tiled = call.weight.tiled,
                                                           .chained = recorder.chains(),
                                                           .y_tiles = call.y_tiles},
                                             .params = {.weight = call.weight.addresses(),
                                                        .x = call.x,
                                                        .scales = call.x + x_bytes - uint64_t{4} * call.rows,
                                                        .bias = call.bias,
                                                        .y = call.y,
                                                        .bounds = call.weight.bounds,
                                                        .inputs = call.inputs,
                                                        .outputs = call.outputs,
                                                        .rows = call.rows,
                                                        .windows = split_windows(t, call),
                                                        .pair_base = kPairBase}},
                             {.reads = {{call.x, x_bytes}},
                              .writes = {{call.y, y_bytes}},
                              .groups = {grid.row_groups, grid.col_groups, splits},
                              .subgroup = device.cooperative_matrix ? kWarpLanes : 0});
}

}  // namespace tandem::vulkan
