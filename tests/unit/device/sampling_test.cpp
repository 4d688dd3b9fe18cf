#include "device/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tandem::device {
namespace {

TEST(SamplingUniform, DependsOnEveryArgumentAndStaysInside) {
    std::set<float> seen;
    for (uint64_t seed : {0ULL, 1ULL, ~0ULL}) {
        for (uint64_t draw = 0; draw < 50; ++draw) {
            for (int32_t token = 0; token < 50; ++token) {
                const float u = sampling_uniform(seed, draw, token);
                EXPECT_GT(u, 0.0F);
                EXPECT_LT(u, 1.0F);
                EXPECT_TRUE(std::isfinite(-std::log(-std::log(u))));
                seen.insert(u);
            }
        }
    }
    // 7500 numbers of 2^23 values: about 3.4 collisions are expected.
    EXPECT_GT(seen.size(), 7470U);
    EXPECT_EQ(sampling_uniform(7, 8, 9), sampling_uniform(7, 8, 9));
}

TEST(SamplingUniform, IsUniform) {
    constexpr int kBins = 16;
    constexpr int kDraws = 160000;
    int count[kBins] = {};
    for (int i = 0; i < kDraws; ++i) {
        ++count[static_cast<int>(sampling_uniform(42, static_cast<uint64_t>(i / 400), i % 400) * kBins)];
    }
    constexpr double kExpected = double{kDraws} / kBins;
    double chi_square = 0;
    for (int observed : count) chi_square += std::pow(observed - kExpected, 2) / kExpected;
    EXPECT_LT(chi_square, 37.7);  // the 99.9 % quantile for 15 degrees of freedom
}

}  // namespace
}  // namespace tandem::device
