#include "npu/array.h"

#include <gtest/gtest.h>

namespace tandem::npu {
namespace {

TEST(Array, Npu1HasSixteenComputeTilesAndThirteenTeraOps) {
    const Array* npu1 = find_array("npu1");
    ASSERT_NE(npu1, nullptr);
    EXPECT_EQ(npu1->compute_tiles(), 16);
    const double tera_ops = 2 * npu1->macs_per_cycle_i8 * npu1->compute_tiles() * npu1->clock_mhz * 1e-6;
    EXPECT_NEAR(tera_ops, 13.1, 0.05);
    EXPECT_EQ(find_array("npu2")->compute_tiles(), 32);
    EXPECT_EQ(find_array("npu9"), nullptr);
}

TEST(Array, KnowsItsTilesByRow) {
    const Array& npu1 = *find_array("npu1");
    EXPECT_EQ(npu1.kind({0, 0}), TileKind::shim);
    EXPECT_EQ(npu1.kind({3, 1}), TileKind::mem);
    EXPECT_EQ(npu1.kind({3, 5}), TileKind::compute);
    EXPECT_FALSE(npu1.has({4, 2}));
    EXPECT_FALSE(npu1.has({0, 6}));
    EXPECT_FALSE(npu1.has({-1, 2}));
    EXPECT_EQ(npu1.limits(TileKind::mem).memory_bytes, 512 * 1024);
}

TEST(Array, CoresReachTheMemoriesAroundThemButNotToTheEast) {
    const Array& npu1 = *find_array("npu1");
    EXPECT_TRUE(npu1.reaches({1, 3}, {1, 3}));
    EXPECT_TRUE(npu1.reaches({1, 3}, {0, 3}));
    EXPECT_FALSE(npu1.reaches({1, 3}, {2, 3}));
    EXPECT_TRUE(npu1.reaches({1, 3}, {1, 2}));
    EXPECT_TRUE(npu1.reaches({1, 3}, {1, 4}));
    EXPECT_FALSE(npu1.reaches({1, 2}, {1, 1}));  // a mem tile
    EXPECT_FALSE(npu1.reaches({1, 3}, {1, 5}));
    EXPECT_FALSE(npu1.reaches({1, 3}, {2, 4}));
}

TEST(Array, MultipliesOnlyInTheShapesOfItsCores) {
    EXPECT_TRUE(find_array("npu1")->multiplies("4x8x8 i8"));
    EXPECT_FALSE(find_array("npu1")->multiplies("8x8x8 i8"));
    EXPECT_TRUE(find_array("npu2")->multiplies("8x8x8 i8"));
    EXPECT_FALSE(find_array("npu1")->multiplies(""));
}

}  // namespace
}  // namespace tandem::npu
