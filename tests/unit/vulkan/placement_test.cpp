#include "vulkan/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<WeightDemand> demands() {
    return {{.name = "embedding", .size_bytes = 4 * kMiB, .streamed = false},
            {.name = "first", .size_bytes = 3 * kMiB},
            {.name = "second", .size_bytes = 3 * kMiB},
            {.name = "small", .size_bytes = kMiB}};
}

TEST(Placement, TakesTheDevicesOwnMemoryWhileThereIsSome) {
    EXPECT_TRUE(place_weights(demands(), {.device_bytes = 11 * kMiB, .host_bytes = 0}).value().empty());
    EXPECT_THAT(place_weights(demands(), {.device_bytes = 10 * kMiB, .host_bytes = 9 * kMiB}).value(),
                UnorderedElementsAre("embedding"))
        << "a table of which rows are read goes first";
    EXPECT_THAT(place_weights(demands(), {.device_bytes = 4 * kMiB, .host_bytes = 9 * kMiB}).value(),
                UnorderedElementsAre("embedding", "second"));
}

TEST(Placement, SaysWhatIsMissing) {
    const auto refused = place_weights(demands(), {.device_bytes = 4 * kMiB, .host_bytes = 5 * kMiB});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("weights of 11 MiB do not fit: 2 MiB are missing"));
}

TEST(Placement, KnowsATableThatIsAlsoTheOutput) {
    graph::Graph g;
    const graph::Tensor tied = g.weight("tied", graph::matrix_type(DType::f16, graph::Dim::of(8), 4));
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(8), 4));
    const graph::Tensor x = g.embed(tied, g.tokens());
    g.result("logits", g.linear(tied, g.add(x, g.embed(table, g.tokens()))));
    const std::vector<WeightDemand> found = weight_demands(std::move(g).finish());
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].name, "tied");
    EXPECT_EQ(found[0].size_bytes, 64U);
    EXPECT_TRUE(found[0].streamed);
    EXPECT_FALSE(found[1].streamed);
}

}  // namespace
}  // namespace tandem::vulkan
