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
    return {{.name = "embedding", .size_bytes = 4 * kMiB, .share = 0},
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
    EXPECT_EQ(found[0].share, 1);
    EXPECT_EQ(found[1].share, 0);
}

TEST(Placement, KeepsWhatEveryTokenReadsBeforeExperts) {
    const auto experts_of = [](int64_t count) {
        return graph::TensorType{DType::f16, {graph::Dim::of(count), graph::Dim::of(8), graph::Dim::of(8)}};
    };
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(8), 8)), g.tokens());
    const graph::Tensor routing = g.route(x, {.used = 2});
    const graph::Tensor y = g.expert_linear({.weight = g.weight("experts", experts_of(8)), .count = 8}, x, routing);
    const graph::Tensor sum = g.expert_sum(y, routing);
    g.result("logits", g.linear(g.weight("output", graph::matrix_type(DType::f16, graph::Dim::of(64), 8)), sum));
    const std::vector<WeightDemand> found = weight_demands(std::move(g).finish());
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[1].name, "experts");
    EXPECT_EQ(found[1].share, 0.25);
    EXPECT_THAT(place_weights(found, {.device_bytes = 1024, .host_bytes = 4096}).value(),
                UnorderedElementsAre("table", "experts"));
}

}  // namespace
}  // namespace tandem::vulkan
