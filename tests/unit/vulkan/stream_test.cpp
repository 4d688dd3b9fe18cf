#include "vulkan/kernels/stream.h"

#include <cmath>

#include "unit/vulkan/gpu.h"
#include "unit/vulkan/host_math.h"
#include "vulkan/activations.h"
#include "vulkan/kernels/norm_act.h"

namespace tandem::vulkan {
namespace {

struct Case {
    DType dtype = DType::q4_0;
    uint32_t rows = 17;
    uint32_t outputs = 96;
    uint32_t inputs = 256;
    bool bias = false;
    std::optional<op::Activation> glu = {};
    StreamTuning tuning = {.groups = 1};
};

// Rows are brought into tiles by norm_act and multiplied. Weights and activations are rounded to f16, 2^-11 each.
void expect_product(const Case& c) {
    SCOPED_TRACE(fmt::format("{}, {} rows, {} x {}, tiles {} x {}, warps {} / {}", name(c.dtype), c.rows, c.outputs,
                             c.inputs, c.tuning.row_tiles, c.tuning.col_tiles, c.tuning.warps, c.tuning.row_warps));
    std::mt19937 rng(c.outputs * 7919 + c.inputs + c.rows);
    const HostMatrix w = random_matrix(rng, c.dtype, c.outputs, c.inputs);
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

TEST(Stream, EveryWeightTypeAgrees) {
    for (DType dtype : {DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                        DType::q4_k, DType::q5_k, DType::q6_k}) {
        expect_product({.dtype = dtype});
    }
}

TEST(Stream, AnyNumberOfRowsAndOutputs) {
    for (uint32_t rows : {1U, 2U, 8U, 9U, 16U, 33U}) {
        expect_product({.rows = rows, .outputs = 70, .inputs = 128, .bias = true});
    }
}

TEST(Stream, EveryTuningAgrees) {
    expect_product({.rows = 40, .outputs = 130, .tuning = {.col_tiles = 2, .row_tiles = 2, .warps = 2, .groups = 1}});
    expect_product({.rows = 40, .outputs = 70, .tuning = {.row_tiles = 1, .warps = 4, .row_warps = 2, .groups = 1}});
    expect_product({.rows = 3, .outputs = 64, .tuning = {.col_tiles = 4, .warps = 1, .groups = 1}});
    // three windows for two warps: one has nothing to do in the end
    expect_product({.rows = 20, .outputs = 70, .inputs = 384, .tuning = {.warps = 4, .depth_warps = 2, .groups = 1}});
}

TEST(Stream, SplitsAlongTheInputs) {
    expect_product({.rows = 5, .outputs = 32, .inputs = 2048, .bias = true, .tuning = {.warps = 2, .groups = 8}});
}

TEST(Stream, GatesInTheEpilogue) {
    for (auto activation : {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf}) {
        expect_product({.outputs = 120, .bias = true, .glu = activation, .tuning = {.warps = 2, .groups = 1}});
    }
}

}  // namespace
}  // namespace tandem::vulkan
