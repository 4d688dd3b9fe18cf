// The ops that work on rows by themselves: embed, rms_norm, rope, scale_by_position, glu, add, columns, select_rows,
// scale, softcap.
#include <cmath>

#include "format/quant.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

std::vector<float> reference(const graph::Op& op, const std::vector<HostTensor>& inputs) {
    return run_op(devices().front().use(), op, inputs);
}

std::vector<float> rope_frequencies(int pairs, double base) {
    std::vector<float> frequencies;
    frequencies.reserve(static_cast<size_t>(pairs));
    for (int i = 0; i < pairs; ++i) frequencies.push_back(static_cast<float>(std::pow(base, -double(i) / pairs)));
    return frequencies;
}

}  // namespace

TEST(Embed, ReferenceScalesTheChosenRows) {
    const HostTensor table = tensor({3, 2}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(reference(op::Embed{.scale = 10.0F}, {table, integers({2, 0, 2})}),
              (std::vector<float>{50, 60, 10, 20, 50, 60}));
}

TEST(Embed, EveryTableTypeIsExact) {
    Rng rng(1);
    for (DType dtype : kAllDTypes) {
        if (!format::has_encoder(dtype)) continue;
        SCOPED_TRACE(name(dtype));
        for (int64_t cols : {int64_t{info(dtype).block}, int64_t{1280}}) {
            const HostTensor table = uniform(rng, dtype, {11, cols});
            // Scaling and decoding may be joined into one multiplication, so a few roundings differ.
            expect_same_on_every_device(op::Embed{.scale = 73.3F}, {table, integers({10, 3, 3, 0, 7})},
                                        Tolerance::rounding(4));
        }
    }
}

TEST(RmsNorm, ReferenceMatchesTheFormula) {
    // mean(3^2, 4^2) = 12.5
    const std::vector<float> y = reference(op::RmsNorm{.eps = 0.0F}, {tensor({1, 2}, {3, 4}), tensor({2}, {1, 2})});
    EXPECT_FLOAT_EQ(y[0], static_cast<float>(3.0 / std::sqrt(12.5)));
    EXPECT_FLOAT_EQ(y[1], static_cast<float>(8.0 / std::sqrt(12.5)));
}

TEST(RmsNorm, EpsilonKeepsARowOfZerosFinite) {
    for (const Device& device : devices()) {
        const std::vector<float> y =
            run_op(device.use(), op::RmsNorm{.eps = 1e-6F}, {tensor({1, 3}, {0, 0, 0}), tensor({3}, {1, 1, 1})});
        EXPECT_EQ(y, (std::vector<float>{0, 0, 0})) << device.name;
    }
}

TEST(RmsNorm, WithoutAWeightIsOneOfOnes) {
    Rng rng(12);
    for (int width : {1, 31, 64, 512}) {
        SCOPED_TRACE(width);
        const HostTensor x = uniform(rng, DType::f32, {5, 3 * width});
        const HostTensor ones = tensor({width}, std::vector<float>(static_cast<size_t>(width), 1.0F));
        EXPECT_EQ(reference(op::RmsNorm{.eps = 1e-6F, .width = width}, {x}),
                  reference(op::RmsNorm{.eps = 1e-6F}, {x, ones}));
        expect_same_on_every_device(op::RmsNorm{.eps = 1e-6F, .width = width}, {x}, Tolerance::reduction(width));
    }
}

TEST(RmsNorm, AgreesWithTheReferenceOnEveryDevice) {
    Rng rng(42);
    for (int cols : {1, 31, 128, 5376}) {  // scalar, ragged, small, the real model
        const HostTensor x = uniform(rng, DType::f32, {7, cols});
        const HostTensor w = uniform(rng, DType::f32, {cols});
        expect_same_on_every_device(op::RmsNorm{.eps = 1e-6F}, {x, w}, Tolerance::reduction(cols));
    }
}

TEST(RmsNorm, NormsEachHeadByItself) {
    Rng rng(43);
    for (int heads : {2, 8, 32}) {
        const HostTensor x = uniform(rng, DType::f32, {5, heads * 48});
        const HostTensor w = uniform(rng, DType::f32, {48});
        expect_same_on_every_device(op::RmsNorm{.eps = 1e-5F}, {x, w}, Tolerance::reduction(48));
    }
}

TEST(Rope, ReferenceTurnsAQuarter) {
    const auto quarter = static_cast<float>(std::acos(-1.0) / 2);
    const HostTensor x = tensor({1, 4}, {1, 2, 3, 4});
    const op::Rope half{.head_dim = 4, .layout = op::RopeLayout::half, .inv_freq = {quarter, 0.0F}};
    const op::Rope interleaved{.head_dim = 4, .layout = op::RopeLayout::interleaved, .inv_freq = {quarter, 0.0F}};
    const std::vector<float> y_half = reference(half, {x, integers({1})});
    const std::vector<float> y_interleaved = reference(interleaved, {x, integers({1})});
    const float expected_half[] = {-3, 2, 1, 4};         // pairs (1, 3) and (2, 4)
    const float expected_interleaved[] = {-2, 1, 3, 4};  // pairs (1, 2) and (3, 4)
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_NEAR(y_half[i], expected_half[i], 1e-6F);
        EXPECT_NEAR(y_interleaved[i], expected_interleaved[i], 1e-6F);
    }
}

TEST(Rope, BothLayoutsPartialAndFullAgree) {
    Rng rng(3);
    for (op::RopeLayout layout : {op::RopeLayout::half, op::RopeLayout::interleaved}) {
        for (int head_dim : {2, 6, 64, 80, 256}) {
            for (int pairs : {1, head_dim / 4, head_dim / 2}) {
                if (pairs == 0) continue;
                SCOPED_TRACE(fmt::format("head_dim {} pairs {}", head_dim, pairs));
                const op::Rope rope{.head_dim = head_dim,
                                    .layout = layout,
                                    .magnitude = 1.25F,
                                    .inv_freq = rope_frequencies(pairs, 10000.0)};
                const HostTensor x = uniform(rng, DType::f32, {4, 3 * head_dim});
                expect_same_on_every_device(rope, {x, integers({0, 1, 1000, 131071})},
                                            Tolerance::of_largest(1.25F, 8.0));
            }
        }
    }
}

TEST(Glu, ReferenceMatchesTheFormulas) {
    for (double gate : {-20.0, -3.0, -0.5, 0.0, 0.7, 2.0, 15.0}) {
        const HostTensor g = tensor({1, 1}, {static_cast<float>(gate)});
        const HostTensor up = tensor({1, 1}, {2.0F});
        const double x = static_cast<float>(gate);
        const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
        const auto near = [&](op::Activation activation, double expected) {
            EXPECT_NEAR(reference(op::Glu{activation}, {g, up})[0], 2.0 * expected, 1e-5 * (1e-2 + std::fabs(x)));
        };
        near(op::Activation::silu, x / (1 + std::exp(-x)));
        near(op::Activation::gelu_tanh, 0.5 * x * (1 + std::tanh(inner)));
        near(op::Activation::gelu_erf, 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))));
        const double limited = std::min(x, 7.0);
        near(op::Activation::clamped, 1.5 * limited / (1 + std::exp(-1.702 * limited)));
    }
}

TEST(Glu, ClampedLimitsWhatGoesUp) {
    const HostTensor gate = tensor({1, 4}, {100, 100, -200, 0});
    const HostTensor up = tensor({1, 4}, {100, -100, 1, 5});
    for (const Device& device : devices()) {
        const std::vector<float> y = run_op(device.use(), op::Glu{op::Activation::clamped}, {gate, up});
        EXPECT_NEAR(y[0], 56.0F, 1e-3F) << device.name;
        EXPECT_NEAR(y[1], -42.0F, 1e-3F) << device.name;
        EXPECT_NEAR(y[2], 0.0F, 1e-30F) << device.name;
        EXPECT_EQ(y[3], 0.0F) << device.name;
    }
}

TEST(Glu, EveryActivationAgrees) {
    Rng rng(4);
    for (op::Activation activation :
         {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf, op::Activation::clamped}) {
        for (int cols : {1, 31, 4099}) {
            const HostTensor gate = uniform(rng, DType::f32, {3, cols}, -12.0F, 12.0F);
            const HostTensor up = uniform(rng, DType::f32, {3, cols}, -2.0F, 2.0F);
            expect_same_on_every_device(op::Glu{activation}, {gate, up}, Tolerance::rounding(16));
        }
    }
}

TEST(Glu, LargeGatesDoNotOverflow) {
    const HostTensor gate = tensor({1, 6}, {-1e30F, -200.0F, -90.0F, 90.0F, 200.0F, 1e30F});
    const HostTensor up = tensor({1, 6}, {1, 1, 1, 1, 1, 1});
    for (op::Activation activation : {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf}) {
        for (const Device& device : devices()) {
            const std::vector<float> y = run_op(device.use(), op::Glu{activation}, {gate, up});
            for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(y[i], 0.0F, 1e-30F) << device.name;
            EXPECT_EQ(y[3], 90.0F);
            EXPECT_EQ(y[4], 200.0F);
            EXPECT_EQ(y[5], 1e30F);
        }
    }
}

TEST(Add, IsExact) {
    Rng rng(5);
    for (int cols : {1, 33, 5376}) {
        expect_same_on_every_device(
            op::Add{}, {uniform(rng, DType::f32, {3, cols}), uniform(rng, DType::f32, {3, cols})}, Tolerance::exact());
    }
    EXPECT_EQ(reference(op::Add{}, {tensor({1, 2}, {1, 2}), tensor({1, 2}, {10, 20})}), (std::vector<float>{11, 22}));
}

TEST(SelectRows, CopiesRowsInTheOrderAsked) {
    const HostTensor x = tensor({3, 2}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(reference(op::SelectRows{}, {x, integers({2, 0})}), (std::vector<float>{5, 6, 1, 2}));
    Rng rng(6);
    expect_same_on_every_device(op::SelectRows{}, {uniform(rng, DType::f32, {9, 5376}), integers({8, 8, 0, 3})},
                                Tolerance::exact());
}

TEST(Columns, CopiesThoseAsked) {
    const HostTensor x = tensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(reference(op::Columns{.first = 1, .count = 2}, {x}), (std::vector<float>{2, 3, 6, 7}));
    Rng rng(13);
    const HostTensor wide = uniform(rng, DType::f32, {5, 1000});
    for (int64_t first : {0, 3, 700}) {
        expect_same_on_every_device(op::Columns{.first = first, .count = 300}, {wide}, Tolerance::exact());
    }
}

TEST(ScaleByPosition, GrowsWithEveryStretchOfTheContext) {
    const std::vector<float> y = reference(op::ScaleByPosition{.growth = 0.1F, .every = 16384},
                                           {tensor({4, 1}, {1, 1, 1, 2}), integers({0, 16383, 16384, 40000})});
    EXPECT_EQ(y[0], 1.0F);
    EXPECT_EQ(y[1], 1.0F);
    EXPECT_FLOAT_EQ(y[2], static_cast<float>(1 + 0.1 * std::log(2.0)));
    EXPECT_FLOAT_EQ(y[3], static_cast<float>(2 * (1 + 0.1 * std::log(3.0))));
    Rng rng(14);
    for (int64_t cols : {1, 31, 5376}) {
        expect_same_on_every_device(op::ScaleByPosition{.growth = 0.7F, .every = 100},
                                    {uniform(rng, DType::f32, {4, cols}), integers({0, 99, 100, 131071})},
                                    Tolerance::rounding(4));
    }
}

TEST(Scale, MultipliesAndAddsTheBias) {
    const HostTensor x = tensor({2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(reference(op::Scale{.factor = 0.5F}, {x}), (std::vector<float>{0.5F, 1, 1.5F, 2}));
    EXPECT_EQ(reference(op::Scale{.factor = -2.0F}, {x, tensor({2}, {10, 20})}), (std::vector<float>{8, 16, 4, 12}));
}

TEST(Scale, AgreesWithTheReferenceOnEveryDevice) {
    Rng rng(11);
    for (int64_t cols : {1, 31, 5376}) {
        const HostTensor x = uniform(rng, DType::f32, {7, cols});
        expect_same_on_every_device(op::Scale{.factor = 0.3F}, {x}, Tolerance::rounding(1));
        expect_same_on_every_device(op::Scale{.factor = 1e-4F}, {x, uniform(rng, DType::f32, {cols})},
                                    Tolerance::rounding(2));
    }
}

TEST(Softcap, BendsTowardsTheCap) {
    const std::vector<float> y = reference(op::Softcap{.cap = 30.0F}, {tensor({1, 3}, {0, 30, -1e9F})});
    EXPECT_EQ(y[0], 0.0F);
    EXPECT_FLOAT_EQ(y[1], static_cast<float>(30.0 * std::tanh(1.0)));
    EXPECT_FLOAT_EQ(y[2], -30.0F);
    Rng rng(7);
    for (int cols : {1, 17, 6007}) {
        expect_same_on_every_device(op::Softcap{.cap = 30.0F}, {uniform(rng, DType::f32, {2, cols}, -100.0F, 100.0F)},
                                    Tolerance::rounding(16));
    }
    // Small inputs pass nearly unchanged; the relative error must stay small there, too.
    expect_same_on_every_device(op::Softcap{.cap = 30.0F}, {uniform(rng, DType::f32, {1, 999}, -1e-3F, 1e-3F)},
                                Tolerance::rounding(16));
}

}  // namespace tandem::test
