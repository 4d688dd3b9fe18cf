#include "vulkan/kernels/gemv.h"

#include <cmath>
#include <random>

#include "format/quant.h"
#include "unit/vulkan/gpu.h"
#include "unit/vulkan/host_math.h"
#include "vulkan/activations.h"

namespace tandem::vulkan {
namespace {

struct GemvCase {
    DType dtype = DType::q4_0;
    uint32_t outputs = 64;
    uint32_t inputs = 256;
    bool bias = false;
    std::optional<op::Activation> glu = {};
    GemvTuning tuning = {};
};

// Runs the case and compares every output with the product of the decoded weights and the very int8 activations that
// the kernel reads, so that all there is to differ is the order of sums in f32.
void expect_gemv(const GemvCase& c) {
    SCOPED_TRACE(fmt::format("{}, {} x {}, lanes {} / {}, rows {}, unroll {}", name(c.dtype), c.outputs, c.inputs,
                             c.tuning.lanes, c.tuning.lanes_per_row, c.tuning.rows, c.tuning.unroll));
    std::mt19937 rng(c.outputs * 7919 + c.inputs);
    const uint32_t rows = c.glu ? 2 * c.outputs : c.outputs;
    const HostMatrix w = random_matrix(rng, c.dtype, rows, c.inputs);
    const std::vector<float> bias = random_floats(rng, rows);
    const Q8Row x = quantize_row(random_floats(rng, c.inputs));

    const Buffer device_x = gpu().upload(x.bytes);
    const Buffer device_bias = gpu().upload(bias);
    const Buffer y = gpu().buffer(c.glu ? activation_bytes(ActivationFormat::q8, 1, c.outputs) : c.outputs * 4);
    gpu().run([&](Recorder& recorder) {
        return record_gemv(recorder, c.tuning, gpu().device()->capabilities(),
                           {.dtype = c.dtype,
                            .weight = upload_planes(w),
                            .outputs = c.outputs,
                            .inputs = c.inputs,
                            .x = whole(device_x),
                            .bias = c.bias ? device_bias.address : 0,
                            .glu = c.glu,
                            .y = whole(y)});
    });

    std::vector<double> expected = host_product(w, x.values, 1);
    for (uint32_t o = 0; c.bias && o < rows; ++o) expected[o] += bias[o];
    const double tolerance = 0x1p-23 * c.inputs * product_magnitude(w, x.values);
    if (!c.glu) {
        expect_near(gpu().read<float>(y), expected, tolerance);
        return;
    }
    std::vector<double> gated(c.outputs);
    for (uint32_t o = 0; o < c.outputs; ++o) gated[o] = host_activate(*c.glu, expected[o]) * expected[c.outputs + o];
    const std::vector<float> decoded = dequantize_row(gpu().read<std::byte>(y), c.outputs);
    for (uint32_t o = 0; o < c.outputs; ++o) {
        double largest = 0;  // of the block, which sets the step of its int8
        for (uint32_t i = o / 32 * 32; i < o / 32 * 32 + 32; ++i) largest = std::max(largest, std::abs(gated[i]));
        ASSERT_NEAR(decoded[o], gated[o], largest / 127 * 0.501 + 1e-4 * largest) << "output " << o;
    }
}

TEST(Gemv, EveryWeightTypeAgrees) {
    for (const DType dtype : block_types()) {
        expect_gemv({.dtype = dtype});
        expect_gemv({.dtype = dtype, .outputs = 71, .inputs = 768, .bias = true});
    }
}

TEST(Gemv, EveryTuningAgrees) {
    for (uint32_t per_row : {4U, 8U, 16U, 32U}) {
        for (uint32_t rows : {1U, 2U}) {
            const GemvTuning tuning{.lanes = per_row == 8 ? 256U : 64U,
                                    .lanes_per_row = per_row,
                                    .rows = rows,
                                    .unroll = rows,
                                    .groups = 3,
                                    .staged = rows == 1 ? 1U : 0U};
            expect_gemv({.outputs = 100, .inputs = 352, .tuning = tuning});
            expect_gemv({.outputs = 112, .inputs = 384, .tuning = tuning});  // in tiles
        }
    }
}

TEST(Gemv, GatesAndQuantisesInTheEpilogue) {
    for (auto activation : {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf}) {
        for (uint32_t rows : {1U, 2U}) {
            expect_gemv({.outputs = 96, .inputs = 160, .glu = activation, .tuning = {.rows = rows}});
            expect_gemv({.dtype = DType::q6_k, .outputs = 64, .inputs = 256, .bias = true, .glu = activation});
        }
    }
}

}  // namespace
}  // namespace tandem::vulkan
