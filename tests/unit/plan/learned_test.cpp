#include "plan/learned.h"

#include <gtest/gtest.h>

namespace tandem::plan {
namespace {

// Runs steps as Learned says, each taking what its way takes; returns how many of them were run by both.
int steps_by_both(Learned& learned, int64_t rows, int steps, double alone_s, double together_s) {
    int by_both = 0;
    for (int i = 0; i < steps; ++i) {
        const bool together = learned.together(rows);
        by_both += together ? 1 : 0;
        learned.add(rows, together, together ? together_s : alone_s);
    }
    return by_both;
}

TEST(Learned, KeepsTheNpuWhereItWins) {
    Learned learned;
    EXPECT_EQ(steps_by_both(learned, 2048, 20, 1.0, 0.8), 17);  // all but the three of the other kind
    EXPECT_FALSE(learned.given_up());
    EXPECT_NEAR(learned.times().at(2048).alone_s, 1.0, 1e-12);
    EXPECT_NEAR(learned.times().at(2048).together_s, 0.8, 1e-12);
}

TEST(Learned, GivesItUpWhereItDoesNot) {
    Learned learned;
    EXPECT_EQ(steps_by_both(learned, 2048, 20, 1.0, 1.2), 3);
    EXPECT_TRUE(learned.given_up());
    // A gain that is none: two measurements of one thing differ as much.
    Learned equal;
    EXPECT_EQ(steps_by_both(equal, 2048, 20, 1.0, 0.98), 3);
}

TEST(Learned, ComparesStepsOfAboutAsManyRows) {
    Learned learned;
    steps_by_both(learned, 128, 10, 1.0, 2.0);
    EXPECT_FALSE(learned.together(100));
    EXPECT_TRUE(learned.together(2048)) << "nothing is known of these";
    steps_by_both(learned, 2048, 10, 2.0, 1.0);
    EXPECT_TRUE(learned.together(1500));
    EXPECT_FALSE(learned.given_up());
}

TEST(Learned, GoesOnWithWhatWasKept) {
    Learned learned;
    learned.set(512, {.alone_s = 1, .together_s = 2});
    EXPECT_FALSE(learned.together(500));
    EXPECT_EQ(learned.times().size(), 1U);
}

}  // namespace
}  // namespace tandem::plan
