#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/backend.h"

namespace tandem::device {
namespace {

using testing::HasSubstr;

CacheShape shape_of(DType dtype, int head_dim) {
    CacheShape shape;
    shape.layers = {{.kv_heads = 2, .head_dim = head_dim, .window = 0, .group = 0},
                    {.kv_heads = 4, .head_dim = head_dim, .window = 8, .group = 1}};
    shape.dtype = dtype;
    shape.block_tokens = 16;
    shape.blocks = {3, 5};
    return shape;
}

TEST(CacheShape, CountsKeysAndValuesOfEveryLayer) {
    const uint64_t elements = 2 * 16 * 64 * (3 * 2 + 5 * 4);
    EXPECT_EQ(shape_of(DType::f32, 64).size_bytes(), 4 * elements);
    EXPECT_EQ(shape_of(DType::f16, 64).size_bytes(), 2 * elements);
    EXPECT_EQ(shape_of(DType::q8_0, 64).size_bytes(), elements + elements / 32 * 2) << "a scale for each 32 elements";
}

TEST(CacheShape, RefusesTypesAndHeadsThatDoNotGoTogether) {
    EXPECT_TRUE(shape_of(DType::q8_0, 96).check());
    EXPECT_TRUE(shape_of(DType::f16, 80).check());
    EXPECT_THAT(shape_of(DType::q8_0, 80).check().error().message, HasSubstr("heads of a multiple of 32"));
    EXPECT_THAT(shape_of(DType::q4_0, 64).check().error().message, HasSubstr("choose f16, f32 or q8_0"));
}

}  // namespace
}  // namespace tandem::device
