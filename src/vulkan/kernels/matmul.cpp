#include "vulkan/kernels/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "vulkan/activations.h"
#include "vulkan/kernel.h"
#include "vulkan/kernels/expert_rows.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kFragment = 16;       // what sizes are multiples of: outputs and rows of most matrices
constexpr uint32_t kNarrowFragment = 8;  // rows of a matrix where tiles have no more
constexpr uint32_t kBandTiles = 16;      // row tiles that run side by side
constexpr uint32_t kMaxSplitRows = 64;   // of products that may be split
constexpr uint32_t kMinSplitSteps = 4;   // of depth: below, filling the pipeline takes as long as the work
constexpr uint32_t kPreferredWarp = 32;  // lanes
constexpr uint32_t kMaxRows = 4096;

uint32_t warps(const MatmulTuning& t) {
    return (t.tile_rows / t.warp_rows) * (t.tile_cols / t.warp_cols);
}

uint32_t fragment_rows(const MatmulTuning& t, const Capabilities& device) {
    return t.warp_rows % device.fragment.rows == 0 ? device.fragment.rows : kNarrowFragment;
}

uint32_t warp_lanes(const Capabilities& device) {
    return std::clamp(kPreferredWarp, device.min_subgroup, device.max_subgroup);
}

kernels::Matmul::Constants constants_of(const MatmulTuning& t, const Capabilities& device) {
    const uint32_t lanes = warp_lanes(device);
    return {.lanes = warps(t) * lanes,
            .subgroup = lanes,
            .fragment_cols = device.fragment.cols,
            .fragment_rows = fragment_rows(t, device),
            .fragment_depth = device.fragment.depth,
            .tile_rows = t.tile_rows,
            .tile_cols = t.tile_cols,
            .depth = t.depth,
            .warp_rows = t.warp_rows,
            .warp_cols = t.warp_cols,
            .stages = t.stages,
            .glu = 0,
            .tail = true,
            .tiled = false,
            .experts = 0,
            .shared_x = false};
}

const MatmulTuning& choose(const Tuning& tuning, uint32_t rows) {
    return entry_for(tuning.matmul, [&](const MatmulTuning& each) { return rows <= each.max_rows; });
}

// Steps of the tuning's depth that each split takes.
uint32_t split_steps(const MatmulTuning& t, const MatmulCall& call) {
    const uint32_t steps = divide_up(call.inputs, t.depth);
    if (call.glu || call.rows > kMaxSplitRows) return steps;
    const uint32_t tiles = divide_up(call.outputs, t.tile_cols) * divide_up(call.rows, t.tile_rows);
    const uint32_t most = std::clamp(steps / kMinSplitSteps, 1U, call.max_splits);
    return divide_up(steps, std::clamp(t.groups / tiles, 1U, most));
}

uint64_t result_bytes(const MatmulCall& call, uint32_t splits) {
    const uint64_t results = call.glu ? call.outputs / 2 : call.outputs;
    return splits * call.rows * results * sizeof(float);
}

}  // namespace

Result<MatmulTuning> fit_matmul(MatmulTuning tuning, const Capabilities& device) {
    const uint32_t pair = 2 * kFragment;  // of a GLU, a warp has fragments of the gate and of up
    if (tuning.depth % 32 != 0 || tuning.warp_cols % pair != 0 || tuning.warp_rows % kNarrowFragment != 0 ||
        tuning.depth * tuning.warp_cols * tuning.warp_rows == 0 || tuning.tile_cols % tuning.warp_cols != 0 ||
        tuning.tile_rows % tuning.warp_rows != 0 || warps(tuning) == 0 || tuning.stages - 1 > 1) {
        return fail("a tile of {} x {} x {} in warps of {} x {} and {} stages cannot be multiplied", tuning.tile_rows,
                    tuning.tile_cols, tuning.depth, tuning.warp_rows, tuning.warp_cols, tuning.stages);
    }
    if (fragment_rows(tuning, device) != device.fragment.rows && device.cooperative_matrix && !device.narrow_matrix) {
        const uint32_t row_warps = tuning.tile_rows / tuning.warp_rows;
        tuning.warp_rows = divide_up(tuning.warp_rows, kFragment) * kFragment;
        tuning.tile_rows = row_warps * tuning.warp_rows;
    }
    const auto shared = [&] { return kernels::Matmul::shared_bytes(constants_of(tuning, device)); };
    if (shared() > device.shared_bytes) tuning.stages = 1;
    while (shared() > device.shared_bytes && tuning.depth % 64 == 0) tuning.depth /= 2;
    const uint32_t lanes = kernels::Matmul::workgroup_size(constants_of(tuning, device));
    if (shared() > device.shared_bytes || lanes > device.max_workgroup) {
        return fail("a tile of {} x {} needs {} lanes and {} bytes of shared memory, the device has {} and {}",
                    tuning.tile_rows, tuning.tile_cols, lanes, shared(), device.max_workgroup, device.shared_bytes);
    }
    return tuning;
}

uint32_t matmul_splits(const Tuning& tuning, const MatmulCall& call) {
    const MatmulTuning& chosen = choose(tuning, call.rows);
    return divide_up(divide_up(call.inputs, chosen.depth), split_steps(chosen, call));
}

// Of as many rows as an expert has twice on average.
Result<MatmulTuning> expert_tuning(const Tuning& tuning, const Capabilities& device, uint32_t rows, uint32_t used,
                                   uint32_t experts) {
    return fit_matmul(choose(tuning, std::min(rows, 2 * divide_up(rows * used, experts))), device);
}

namespace {

// Every expert's rows by themselves.
Status record_experts(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call) {
    const MatmulCall::Experts& experts = *call.experts;
    const uint32_t slots = call.rows * experts.used;
    const uint32_t x_rows = experts.shared_x ? call.rows : slots;
    const MatmulTuning t = TRY(expert_tuning(tuning, device, call.rows, experts.used, experts.count));
    const ExpertRows sorted = expert_rows(slots, experts.count, t.tile_rows);
    kernels::Matmul::Constants constants = constants_of(t, device);
    if (call.glu) constants.glu = 1 + static_cast<uint32_t>(*call.glu);
    constants.tail = call.inputs % t.depth != 0;
    constants.tiled = call.weight.tiled;
    constants.experts = experts.used;
    constants.shared_x = experts.shared_x;
    return recorder.dispatch(
        kernels::Matmul{.weight = call.dtype,
                        .matrix = matrices_of(device),
                        .constants = constants,
                        .params = {.weight = call.weight.addresses(),
                                   .x = call.x,
                                   .scales = call.x + uint64_t{2} * x_rows * call.inputs,
                                   .bias = call.bias,
                                   .y = call.y,
                                   .inputs = call.inputs,
                                   .outputs = call.outputs,
                                   .rows = slots,
                                   .steps = divide_up(call.inputs, t.depth),
                                   .bands = 1,
                                   .experts = {.tiles = experts.sorted.begin,
                                               .order = experts.sorted.begin + sorted.order_at(),
                                               .scales = experts.scales,
                                               .stride = experts.stride,
                                               .up = experts.up}}},
        {.reads = {{call.x, activation_bytes(ActivationFormat::f16, x_rows, call.inputs)}, experts.sorted},
         .writes = {{call.y, uint64_t{slots} * (call.glu ? call.outputs / 2 : call.outputs) * sizeof(float)}},
         .groups = {sorted.tiles, divide_up(call.outputs, t.tile_cols), 1},
         .subgroup = device.cooperative_matrix ? warp_lanes(device) : 0});
}

}  // namespace

Status record_matmul(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call) {
    CHECK(call.dtype != DType::f32 && call.inputs > 0 && call.inputs % 32 == 0);
    CHECK(call.rows > 0 && call.rows <= kMaxRows && call.outputs > 0 && (!call.glu || call.outputs % 2 == 0));
    if (call.experts) return record_experts(recorder, tuning, device, call);
    const MatmulTuning& chosen = choose(tuning, call.rows);
    const MatmulTuning t = TRY(fit_matmul(chosen, device));
    const uint32_t splits = matmul_splits(tuning, call);
    const uint32_t steps = split_steps(chosen, call) * (chosen.depth / t.depth);
    const uint32_t row_tiles = divide_up(call.rows, t.tile_rows);
    const uint32_t bands = divide_up(row_tiles, kBandTiles);
    kernels::Matmul::Constants constants = constants_of(t, device);
    if (call.glu) constants.glu = 1 + static_cast<uint32_t>(*call.glu);
    constants.tail = call.inputs % t.depth != 0;
    constants.tiled = call.weight.tiled;
    return recorder.dispatch(
        kernels::Matmul{.weight = call.dtype,
                        .matrix = matrices_of(device),
                        .constants = constants,
                        .params = {.weight = call.weight.addresses(),
                                   .x = call.x,
                                   .scales = call.x + uint64_t{2} * call.rows * call.inputs,
                                   .bias = call.bias,
                                   .y = call.y,
                                   .inputs = call.inputs,
                                   .outputs = call.outputs,
                                   .rows = call.rows,
                                   .steps = steps,
                                   .bands = bands,
                                   .experts = {.tiles = 0, .order = 0, .scales = 0, .stride = 0, .up = 0}}},
        {.reads = {{call.x, activation_bytes(ActivationFormat::f16, call.rows, call.inputs)}},
         .writes = {{call.y, result_bytes(call, splits)}},
         .groups = {std::min(row_tiles, kBandTiles), divide_up(call.outputs, t.tile_cols), bands * splits},
         .subgroup = device.cooperative_matrix ? warp_lanes(device) : 0});
}

}  // namespace tandem::vulkan
