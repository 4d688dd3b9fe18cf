// Clusters: by Speeds and links that are easy to reckon with, what machines with some of the layers each do together.
#include "plan/cluster.h"

#include <gtest/gtest.h>

#include <numeric>

#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::plan {
namespace {

constexpr int kWide = 64;
constexpr int kBlocks = 8;
constexpr double kHopSeconds = 50e-6;

// So many layers of one product each, beside attention that costs nothing.
graph::Program stacked_program(int layers) {
    graph::Graph g;
    const auto square = graph::matrix_type(DType::f16, graph::Dim::of(kWide), kWide);
    graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(100), kWide)), g.tokens());
    for (int layer = 0; layer < layers; ++layer) {
        const int cache = g.cache(1, kWide, 0);
        const graph::Tensor a = g.attention(
            x, g.kv_write(x, x, cache), {.cache = cache, .heads = 1, .kv_heads = 1, .head_dim = kWide, .scale = 1.0F});
        x = g.add(x, g.linear(g.weight(fmt::format("w{}", layer), square), a));
    }
    g.result("next", g.sample(g.linear(g.weight("head", square), g.select_rows(x, g.output_rows()))));
    return std::move(g).finish();
}

// A product takes a millisecond for a row, or for up to 8 where they share a reading.
Speeds millisecond(bool rows_are_free) {
    const double second = 1e-3 / (2.0 * kWide * kWide);
    return {.rates = {.read_bytes_per_s = 1e15, .matrix_flops_per_s = 1e18},
            .attention_bytes_per_s = 1e18,
            .attention_flops_per_s = 1e18,
            .activation_bytes_per_s = 1e18,
            .products = {{.type = DType::f16, .points = {{1, second}, {8, rows_are_free ? second : 8 * second}}}}};
}

Figure figure(double value) {
    return {.value = value, .origin = Origin::reckoned, .source = ""};
}

Result<Cluster> cluster_of(const graph::Program& program, int machines, const Speeds& speeds,
                           uint64_t memory = uint64_t{1} << 40, double mb_per_s = 1e6) {
    return Cluster::plan(
        {.program = program,
         .machines = machines,
         .speeds = speeds,
         .memory_bytes = memory,
         .cache = {.layers = program.caches, .dtype = DType::f16, .block_tokens = 16, .blocks = {kBlocks}},
         .link = {.name = "test", .title = "", .mb_per_s = figure(mb_per_s), .hop_us = figure(kHopSeconds * 1e6)}});
}

TEST(Cluster, OneMachineTakesWhatTheForecastSays) {
    const graph::Program program = stacked_program(4);
    const Speeds speeds = millisecond(true);
    const ClusterForecast alone = cluster_of(program, 1, speeds)->decode(3, 50);
    EXPECT_NEAR(alone.seconds, forecast_decode(program, 3, 50, DType::f16, speeds).seconds, 1e-9);
    EXPECT_EQ(alone.tokens, 3);
    EXPECT_EQ(alone.wire_bytes, 0);
    EXPECT_NEAR(alone.bubble(), 0, 1e-9);
}

TEST(Cluster, OneSequenceGainsNothingAndPaysTheHops) {
    const graph::Program program = stacked_program(6);
    const Speeds speeds = millisecond(true);
    for (const int machines : {2, 3}) {
        const auto cluster = cluster_of(program, machines, speeds);
        ASSERT_TRUE(cluster) << cluster.error().message;
        EXPECT_EQ(std::ssize(cluster->stages()), machines);
        const ClusterForecast one = cluster->decode(1, 0);
        EXPECT_NEAR(one.seconds, 7e-3 + machines * kHopSeconds, 1e-6) << "six layers and the head";
        EXPECT_NEAR(one.bubble(), 1 - 7e-3 / (machines * one.seconds), 1e-3);
        EXPECT_EQ(one.micro_batches, 1);
        EXPECT_EQ(one.wire_bytes, kWide * 2 + 4) << "a row in f16 and its power of two";
    }
}

TEST(Cluster, GroupsKeepMachinesBusyWhereRowsCostAndAreLeftOutWhereReadingDoes) {
    const graph::Program program = stacked_program(7);  // with the head eight products, four for each of two machines
    const ClusterForecast costly = cluster_of(program, 2, millisecond(false))->decode(8, 0);
    EXPECT_EQ(costly.micro_batches, 2);
    EXPECT_NEAR(costly.seconds, 2 * 16e-3, 2e-3) << "each machine 4 products of 4 rows, twice";
    EXPECT_LT(costly.bubble(), 0.1);
    const ClusterForecast read = cluster_of(program, 2, millisecond(true))->decode(8, 0);
    EXPECT_NEAR(read.seconds, 8e-3 + 2 * kHopSeconds, 1e-3) << "groups would read the weights again";
}

TEST(Cluster, ASlowWireIsTheLimit) {
    const graph::Program program = stacked_program(7);
    const double rate = 0.001;  // 1 kB/s
    const ClusterForecast slow = cluster_of(program, 2, millisecond(false), uint64_t{1} << 40, rate)->decode(8, 0);
    EXPECT_GT(slow.seconds, 8 * (kWide * 2 + 4) / (rate * 1e6));
    EXPECT_GT(slow.bubble(), 0.9);
}

TEST(Cluster, APromptIsInAsManyPiecesAsKeepAllBusy) {
    const graph::Program program = stacked_program(7);
    const Speeds speeds = millisecond(false);
    const double alone = cluster_of(program, 1, speeds)->prompt(2048).seconds;
    const ClusterForecast two = cluster_of(program, 2, speeds)->prompt(2048);
    EXPECT_EQ(two.micro_batches, 8);
    EXPECT_EQ(two.tokens, 2048);
    EXPECT_NEAR(alone / two.seconds, 2.0 * 8 / 9, 0.2) << "8 pieces through 2 machines";
}

TEST(Cluster, EachMachineHoldsWhatItsLayersNeed) {
    const graph::Program program = stacked_program(6);
    const uint64_t layer = 2 * kWide * kWide + kBlocks * 16 * 2 * 2 * kWide;
    EXPECT_FALSE(cluster_of(program, 1, millisecond(true), 4 * layer));
    const auto two = cluster_of(program, 2, millisecond(true), 5 * layer);
    ASSERT_TRUE(two) << two.error().message;
    for (const SplitStage& stage : two->stages()) EXPECT_LE(stage.bytes, 5 * layer);
}

TEST(Cluster, NamesTheLinksThatThereAre) {
    EXPECT_EQ((*find_link("2.5gbe"))->mb_per_s.value, 295);
    EXPECT_EQ(find_link("isdn").error().message,
              "--link isdn: there is no such link; there are 1gbe, 2.5gbe, 10gbe, usb4");
}

}  // namespace
}  // namespace tandem::plan
