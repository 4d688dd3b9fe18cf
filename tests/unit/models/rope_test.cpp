#include "models/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tandem::models {
namespace {

using Scaling = RopeSettings::Scaling;

std::vector<float> frequencies(const RopeSettings& rope) {
    return make_rope(rope, rope.dim, op::RopeLayout::half).inv_freq;
}

TEST(Rope, WithoutScalingGoesDownFromOneTowardsTheBase) {
    const auto f = frequencies({.dim = 8, .base = 10000});
    ASSERT_EQ(f.size(), 4U);
    EXPECT_FLOAT_EQ(f[0], 1.0F);
    EXPECT_FLOAT_EQ(f[1], 0.1F);
    EXPECT_FLOAT_EQ(f[2], 0.01F);
    EXPECT_FLOAT_EQ(f[3], 0.001F);
}

TEST(Rope, LinearScalingDividesAll) {
    const auto f = frequencies({.dim = 4, .base = 10000, .scaling = Scaling::linear, .factor = 8});
    EXPECT_FLOAT_EQ(f[0], 0.125F);
    EXPECT_FLOAT_EQ(f[1], 0.00125F);
}

TEST(Rope, Llama3ScalingKeepsFastPairsAndSlowsTheSlowOnes) {
    const RopeSettings rope{
        .dim = 128, .base = 500000, .scaling = Scaling::llama3, .factor = 8, .original_context = 8192};
    const auto scaled = frequencies(rope);
    const auto plain = frequencies({.dim = 128, .base = 500000});
    for (size_t i = 0; i < scaled.size(); ++i) {
        const double wavelength = 2 * std::numbers::pi / plain[i];
        const double ratio = plain[i] / scaled[i];
        EXPECT_GE(ratio, 1 - 1e-6) << i;
        EXPECT_LE(ratio, wavelength < 8192 / 4.0 ? 1 + 1e-6 : 8 + 1e-5) << i;
        EXPECT_GE(ratio, wavelength > 8192 / 1.0 ? 8 - 1e-5 : 1 - 1e-6) << i;
    }
    EXPECT_NEAR(plain[0] / scaled[0], 1, 1e-6);
    EXPECT_NEAR(plain[63] / scaled[63], 8, 1e-5);
}

TEST(Rope, YarnBlendsOverTheMiddlePairs) {
    const RopeSettings rope{
        .dim = 64, .base = 10000, .scaling = Scaling::yarn, .factor = 4, .original_context = 4096, .magnitude = 1.25};
    const auto made = make_rope(rope, 64, op::RopeLayout::half);
    const auto plain = frequencies({.dim = 64, .base = 10000});
    // Pair number 64 ln(4096 / (2 pi 32)) / (2 ln 10000) = 10.5 turns 32 times, pair 22.5 once.
    for (size_t i = 0; i <= 10; ++i) EXPECT_FLOAT_EQ(made.inv_freq[i], plain[i]) << i;
    for (size_t i = 23; i < 32; ++i) EXPECT_FLOAT_EQ(made.inv_freq[i], plain[i] / 4) << i;
    const double slowed = (16.0 - 10) / (23 - 10);
    EXPECT_NEAR(made.inv_freq[16], plain[16] * (slowed / 4 + 1 - slowed), 1e-8);
    EXPECT_FLOAT_EQ(made.magnitude, 1.25F);
}

TEST(Rope, DivisorsOfTheFileComeOnTop) {
    const auto f = frequencies({.dim = 4, .base = 10000, .divisors = {1.0F, 4.0F}});
    EXPECT_FLOAT_EQ(f[0], 1.0F);
    EXPECT_FLOAT_EQ(f[1], 0.0025F);
}

TEST(Rope, PairsWithTheDivisorForItStandStill) {
    const auto f = frequencies({.dim = 4, .base = 10000, .divisors = {2.0F, 1e30F}});
    EXPECT_FLOAT_EQ(f[0], 0.5F);
    EXPECT_EQ(f[1], 0.0F);
}

}  // namespace
}  // namespace tandem::models
