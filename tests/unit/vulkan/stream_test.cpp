#include "vulkan/kernels/stream.h"

#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "unit/vulkan/gpu.h"
#include "unit/vulkan/host_math.h"
#include "vulkan/activations.h"
#include "vulkan/kernels/norm_act.h"
#include "vulkan/kernels/row_bounds.h"

namespace tandem::vulkan {
namespace {

struct StreamCase {
    DType dtype = DType::q4_0;
    uint32_t rows = 17;
    uint32_t outputs = 96;
    uint32_t inputs = 256;
    bool bias = false;
    std::optional<op::Activation> glu = {};
    StreamTuning tuning = {.groups = 1};
    float weights = 1.0F;  // their magnitude
};

// Rows are brought into tiles by norm_act and multiplied. Weights and activations are rounded to f16, 2^-11 each.
void expect_stream(const StreamCase& c) {
    SCOPED_TRACE(fmt::format("{}, {} rows, {} x {}, tiles {} x {}, warps {} / {}", name(c.dtype), c.rows, c.outputs,
                             c.inputs, c.tuning.row_tiles, c.tuning.col_tiles, c.tuning.warps, c.tuning.row_warps));
    std::mt19937 rng(c.outputs * 7919 + c.inputs + c.rows);
    const HostMatrix w = random_matrix(rng, c.dtype, c.outputs, c.inputs, c.weights);
    const std::vector<float> bias = random_floats(rng, c.outputs);
    const std::vector<float> x = random_floats(rng, size_t{c.rows} * c.inputs, 3.0F);

    const Buffer device_x = gpu().upload(x);
    const Buffer tiles = gpu().buffer(activation_bytes(ActivationFormat::tiles, c.rows, c.inputs));
    Tuning tuning;
    tuning.stream = {c.tuning};
    MatmulCall call{.dtype = c.dtype,
                    .weight = upload_planes(w),
                    .outputs = c.outputs,
                    .inputs = c.inputs,
                    .rows = c.rows,
                    .x = tiles.address,
                    .bias = c.bias ? gpu().upload(bias).address : 0,
                    .glu = c.glu};
    const uint32_t splits = stream_splits(tuning, call);
    const uint32_t results = c.glu ? c.outputs / 2 : c.outputs;
    const Buffer y = gpu().buffer(uint64_t{splits} * c.rows * results * 4);
    call.y = y.address;
    gpu().run([&](Recorder& recorder) -> Status {
        const Capabilities& device = gpu().device()->capabilities();
        TRY(record_norm_act(recorder, device,
                            {.x = whole(device_x),
                             .rows = c.rows,
                             .cols = c.inputs,
                             .format = ActivationFormat::tiles,
                             .y = whole(tiles)}));
        return record_stream(recorder, tuning, device, call);
    });

    std::vector<double> expected = host_product(w, x, c.rows);
    for (size_t i = 0; c.bias && i < expected.size(); ++i) expected[i] += bias[i % c.outputs];
    const std::vector<float> parts = gpu().read<float>(y);
    std::vector<float> actual(size_t{c.rows} * results);
    for (size_t i = 0; i < parts.size(); ++i) actual[i % actual.size()] += parts[i];
    const double tolerance = 2 * 0x1p-11 * product_magnitude(w, x);
    if (!c.glu) {
        expect_near(actual, expected, tolerance);
        return;
    }
    for (size_t i = 0; i < actual.size(); ++i) {
        const double gate = expected[i / results * c.outputs + i % results];
        const double up = expected[i / results * c.outputs + results + i % results];
        ASSERT_NEAR(actual[i], host_activate(*c.glu, gate) * up, tolerance * (1.2 * std::abs(up) + std::abs(gate)));
    }
}

// Element of activations in tiles, as vulkan/activations.h has them.
float tile_value(const std::vector<std::byte>& bytes, uint32_t rows, uint32_t cols, uint32_t row, uint32_t col) {
    constexpr uint32_t kOrder[] = {0, 2, 1, 3};
    const uint32_t tile = (row / 16 * (cols / 128) + col / 128) * 8 + col % 32 / 4;
    const uint32_t lane = row % 8 * 4 + col % 128 / 32;
    const size_t at = (size_t{tile * 32 + lane} * (tile_rows(rows) / 8) + row % 16 / 8) * 4 + kOrder[col % 4];
    uint16_t half = 0;
    float scale = 0;
    std::memcpy(&half, bytes.data() + at * 2, 2);
    std::memcpy(&scale, bytes.data() + bytes.size() - size_t{rows - row} * 4, 4);
    return f16_to_f32(half) * scale;
}

// A GLU whose results become activations at once, by a scale that nothing can overflow.
void expect_gated_tiles(DType dtype, uint32_t rows, float magnitude) {
    SCOPED_TRACE(fmt::format("{}, {} rows of {}", name(dtype), rows, magnitude));
    constexpr uint32_t kInputs = 256;
    constexpr uint32_t kResults = 128;
    std::mt19937 rng(rows);
    const HostMatrix w = random_matrix(rng, dtype, 2 * kResults, kInputs);
    const std::vector<float> x = random_floats(rng, size_t{rows} * kInputs, magnitude);
    const Buffer device_x = gpu().upload(x);
    const Buffer tiles = gpu().buffer(activation_bytes(ActivationFormat::tiles, rows, kInputs));
    const Buffer y = gpu().buffer(activation_bytes(ActivationFormat::tiles, rows, kResults));
    const Buffer bounds = gpu().upload(std::vector<float>{0, 0});
    DeviceWeight weight = upload_planes(w);
    weight.bounds = bounds.address;
    Tuning tuning;
    tuning.stream = {{.warps = 4, .depth_warps = 2, .groups = 1}};
    gpu().run([&](Recorder& recorder) -> Status {
        const Capabilities& device = gpu().device()->capabilities();
        TRY(record_row_bounds(
            recorder,
            {.dtype = dtype, .weight = weight, .rows = 2 * kResults, .cols = kInputs, .bounds = whole(bounds)}));
        TRY(record_norm_act(recorder, device,
                            {.x = whole(device_x),
                             .rows = rows,
                             .cols = kInputs,
                             .format = ActivationFormat::tiles,
                             .y = whole(tiles)}));
        recorder.barrier();  // the bounds are a part of the weight, which nobody writes in a step
        return record_stream(recorder, tuning, device,
                             {.dtype = dtype,
                              .weight = weight,
                              .outputs = 2 * kResults,
                              .inputs = kInputs,
                              .rows = rows,
                              .x = tiles.address,
                              .glu = op::Activation::gelu_tanh,
                              .y = y.address,
                              .y_tiles = true});
    });
    const std::vector<double> products = host_product(w, x, rows);
    const std::vector<std::byte> bytes = gpu().read<std::byte>(y);
    const double tolerance = 2 * 0x1p-11 * product_magnitude(w, x);
    for (uint32_t row = 0; row < rows; ++row) {
        for (uint32_t col = 0; col < kResults; ++col) {
            const double gate = products[size_t{row} * 2 * kResults + col];
            const double up = products[size_t{row} * 2 * kResults + kResults + col];
            const double expected = host_activate(op::Activation::gelu_tanh, gate) * up;
            ASSERT_NEAR(tile_value(bytes, rows, kResults, row, col), expected,
                        tolerance * (1.2 * std::abs(up) + std::abs(gate)) + 0x1p-11 * std::abs(expected));
        }
    }
}

TEST(Stream, EveryWeightTypeAgrees) {
    for (const DType dtype : matrix_types()) expect_stream({.dtype = dtype});
}

// Scales below the smallest normal f16.
TEST(Stream, SmallWeightsAreNotNothing) {
    for (DType dtype : {DType::q8_0, DType::q6_k}) expect_stream({.dtype = dtype, .weights = 2e-3F});
    for (DType dtype : {DType::q4_0, DType::q5_0}) expect_stream({.dtype = dtype, .weights = 4e-4F});
}

TEST(Stream, AnyNumberOfRowsAndOutputs) {
    for (uint32_t rows : {1U, 2U, 8U, 9U, 16U, 33U}) {
        expect_stream({.rows = rows, .outputs = 70, .inputs = 128, .bias = true});
    }
}

TEST(Stream, EveryTuningAgrees) {
    expect_stream({.rows = 40, .outputs = 130, .tuning = {.col_tiles = 2, .row_tiles = 2, .warps = 2, .groups = 1}});
    expect_stream({.rows = 40, .outputs = 70, .tuning = {.row_tiles = 1, .warps = 4, .row_warps = 2, .groups = 1}});
    expect_stream({.rows = 3, .outputs = 64, .tuning = {.col_tiles = 4, .warps = 1, .groups = 1}});
    // three windows for two warps: one has nothing to do in the end
    expect_stream({.rows = 20, .outputs = 70, .inputs = 384, .tuning = {.warps = 4, .depth_warps = 2, .groups = 1}});
    expect_stream({.rows = 20,
                   .outputs = 64,
                   .inputs = 640,
                   .tuning = {.row_tiles = 2, .warps = 4, .depth_warps = 4, .groups = 1}});
    // more warps than a lane has results to share
    expect_stream({.rows = 3,
                   .outputs = 64,
                   .inputs = 1024,
                   .glu = op::Activation::silu,
                   .tuning = {.warps = 8, .depth_warps = 8, .groups = 1}});
}

TEST(Stream, TuningIsChosenByRowsAndOutputs) {
    Tuning tuning;
    tuning.stream = {{.max_rows = 16, .max_outputs = 64, .groups = 2},
                     {.max_rows = 16, .max_outputs = 128, .groups = 1},
                     {.max_rows = 16, .groups = 16},
                     {.groups = 1}};
    const auto splits = [&](uint32_t rows, uint32_t outputs) {
        return stream_splits(tuning, {.outputs = outputs, .inputs = 1024, .rows = rows});
    };
    EXPECT_EQ(splits(16, 64), 2U);
    EXPECT_EQ(splits(16, 128), 1U);
    EXPECT_EQ(splits(16, 256), 2U);
    EXPECT_EQ(splits(17, 64), 1U);
}

TEST(Stream, SplitsAlongTheInputs) {
    expect_stream({.rows = 5, .outputs = 32, .inputs = 2048, .bias = true, .tuning = {.warps = 2, .groups = 8}});
}

TEST(Stream, GatesInTheEpilogue) {
    for (auto activation : {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf}) {
        expect_stream({.outputs = 120, .bias = true, .glu = activation, .tuning = {.warps = 2, .groups = 1}});
    }
}

TEST(Stream, GatedResultsBecomeActivations) {
    for (uint32_t rows : {3U, 8U, 19U}) expect_gated_tiles(DType::q4_0, rows, 3.0F);
    for (float magnitude : {1e-3F, 1e5F}) expect_gated_tiles(DType::q4_0, 2, magnitude);
    for (DType dtype : {DType::f16, DType::q8_0, DType::q6_k}) expect_gated_tiles(dtype, 5, 1.0F);
}

TEST(Stream, SplitsInputsSoThatTheLastRoundIsFuller) {
    Tuning tuning;
    tuning.stream = {{.warps = 1, .groups = 4}};
    const auto splits = [&](uint32_t groups, uint32_t most) {
        return stream_splits(tuning, {.outputs = 32 * groups, .inputs = 2048, .rows = 16, .max_splits = most});
    };
    EXPECT_EQ(splits(5, 8), 2U);  // three rounds of 8 windows, not two of 16
    EXPECT_EQ(splits(5, 1), 1U);
    EXPECT_EQ(splits(8, 8), 1U);  // two that are full
    EXPECT_EQ(splits(2, 8), 2U);  // one
    expect_stream({.rows = 16, .outputs = 160, .inputs = 2048, .tuning = {.warps = 1, .groups = 4}});
}

}  // namespace
}  // namespace tandem::vulkan
