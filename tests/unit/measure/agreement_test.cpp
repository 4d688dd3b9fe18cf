#include "measure/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::measure {
namespace {

TEST(CompareLogits, IsNothingBetweenTheSame) {
    const std::vector<float> logits{1, -3, 2.5F, 0};
    const Distance distance = compare_logits(logits, logits);
    EXPECT_EQ(distance.kl, 0);
    EXPECT_EQ(distance.difference, 0);
    EXPECT_TRUE(distance.same_top && distance.finite);
    EXPECT_TRUE(Tolerance().holds(distance));
}

TEST(CompareLogits, IsTheDivergenceOfTheDistributions) {
    // p = (1/4, 3/4), q = (1/2, 1/2)
    const std::vector<float> reference{0.0F, std::log(3.0F)};
    const std::vector<float> logits{7.0F, 7.0F};
    const Distance distance = compare_logits(logits, reference);
    EXPECT_NEAR(distance.kl, 0.25 * std::log(0.5) + 0.75 * std::log(1.5), 1e-6);
    EXPECT_NEAR(distance.difference, 7 / std::log(3.0), 1e-6);
    EXPECT_FALSE(distance.same_top);
    EXPECT_FALSE(Tolerance().holds(distance));
}

TEST(CompareLogits, RefusesWhatIsNotFinite) {
    const std::vector<float> reference{1, 2};
    const std::vector<float> logits{1, std::numeric_limits<float>::quiet_NaN()};
    EXPECT_FALSE(Tolerance().holds(compare_logits(logits, reference)));
    EXPECT_FALSE(Tolerance().holds(compare_logits(reference, logits)));
}

}  // namespace
}  // namespace tandem::measure
