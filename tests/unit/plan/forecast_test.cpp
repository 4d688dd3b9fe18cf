// Forecasts: what a step is made of, by Speeds that are easy to reckon with, and against what was measured on an H200.
#include "plan/forecast.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/ops.h"
#include "plan/machines.h"

namespace tandem::plan {
namespace {

constexpr int kDim = 64;
constexpr double kMatrixBytes = 2.0 * kDim * kDim;

// q, k and v of the same rows, attention, a sum, and logits.
graph::Program small_program() {
    graph::Graph g;
    const auto square = graph::matrix_type(DType::f16, graph::Dim::of(kDim), kDim);
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(100), kDim)), g.tokens());
    const int cache = g.cache(1, kDim, 0);
    const graph::Tensor written =
        g.kv_write(g.linear(g.weight("k", square), x), g.linear(g.weight("v", square), x), cache);
    const graph::Tensor a = g.attention(g.linear(g.weight("q", square), x), written,
                                        {.cache = cache, .heads = 1, .kv_heads = 1, .head_dim = kDim, .scale = 1.0F});
    const graph::Tensor sum = g.add(x, a);
    const graph::Tensor last = g.select_rows(sum, g.output_rows());
    g.result("next", g.sample(g.linear(g.weight("head", square), last)));
    return std::move(g).finish();
}

// Each matrix takes as long for 1 row as for 4, and twice as long for 8.
Speeds stepwise() {
    return {.rates = {.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e12},
            .dispatch_s = 1e-3,
            .attention_bytes_per_s = 1e9,
            .attention_flops_per_s = 1e9,
            .activation_bytes_per_s = 1e15,
            .products = {{.type = DType::f16, .points = {{1, 1e-6}, {4, 1e-6}, {8, 2e-6}}}}};
}

TEST(Forecast, AddsUpReadingComputingAttentionAndDispatches) {
    const Forecast one = forecast_decode(small_program(), 1, 99, DType::f16, stepwise());
    EXPECT_EQ(one.tokens, 1);
    EXPECT_NEAR(one.reading_s, 4 * kMatrixBytes * 1e-6, 1e-12);
    EXPECT_NEAR(one.computing_s, 0, 1e-12);
    EXPECT_NEAR(one.attention_s, 100 * 2 * 2 * kDim / 1e9, 1e-12);  // keys and values of 100 positions
    EXPECT_NEAR(one.dispatch_s, 4e-3, 1e-12) << "q, k and v together, attention, the sum, logits";
    EXPECT_NEAR(one.seconds, one.reading_s + one.attention_s + one.dispatch_s, 1e-9);
    EXPECT_EQ(one.limited_by(), "reading weights");
}

TEST(Forecast, RowsThatShareAReadingCostWhatTheCurveSays) {
    const Forecast four = forecast_decode(small_program(), 4, 0, DType::f16, stepwise());
    EXPECT_NEAR(four.reading_s + four.computing_s, 4 * kMatrixBytes * 1e-6, 1e-12);
    const Forecast six = forecast_decode(small_program(), 6, 0, DType::f16, stepwise());
    EXPECT_NEAR(six.computing_s, 4 * kMatrixBytes * 0.5e-6, 1e-12) << "half way between 4 and 8";
    const Forecast many = forecast_decode(small_program(), 16, 0, DType::f16, stepwise());
    EXPECT_NEAR(many.reading_s + many.computing_s, 4 * kMatrixBytes * 4e-6, 1e-12)
        << "past the last each row costs alike";
}

TEST(Forecast, APromptIsItsChunksAndDrawsOnce) {
    const Forecast whole = forecast_prompt(small_program(), 8, 8, DType::f16, stepwise());
    const Forecast parts = forecast_prompt(small_program(), 8, 4, DType::f16, stepwise());
    EXPECT_EQ(whole.tokens, 8);
    EXPECT_EQ(parts.tokens, 8);
    EXPECT_NEAR(whole.weight_bytes, 4 * kMatrixBytes, 1e-9);
    EXPECT_NEAR(parts.weight_bytes, 7 * kMatrixBytes, 1e-9) << "the head is read for the last chunk alone";
    EXPECT_GT(parts.dispatch_s, whole.dispatch_s);
}

TEST(Forecast, WhatFitsTheCachesHasNoLimitOfReading) {
    Speeds speeds = stepwise();
    speeds.rates.cache_bytes = 1e6;
    speeds.rates.matrix_flops_per_s = 0;
    const Forecast cached = forecast_decode(small_program(), 1, 0, DType::f16, speeds);
    EXPECT_EQ(cached.limit_s, 0);
    EXPECT_EQ(cached.most_tokens_per_s(), 0);
}

TEST(Forecast, OfExpertsThoseAreReadThatRowsReach) {
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(100), kDim)), g.tokens());
    const graph::Tensor routing =
        g.route(g.linear(g.weight("router", graph::matrix_type(DType::f32, graph::Dim::of(8), kDim)), x), {.used = 2});
    const graph::Tensor experts =
        g.weight("experts", {DType::f16, {graph::Dim::of(8), graph::Dim::of(kDim), graph::Dim::of(kDim)}});
    const graph::Tensor y = g.expert_sum(g.expert_linear({.weight = experts, .count = kDim}, x, routing), routing);
    g.result("next", g.sample(g.select_rows(y, g.output_rows())));
    const graph::Program program = std::move(g).finish();
    const double router = 4.0 * 8 * kDim;
    const Forecast one = forecast_decode(program, 1, 0, DType::f16, stepwise());
    EXPECT_NEAR(one.weight_bytes, router + 2 * kMatrixBytes, 1);
    const Forecast many = forecast_decode(program, 64, 0, DType::f16, stepwise());
    EXPECT_NEAR(many.weight_bytes, router + 8 * kMatrixBytes, 1);
}

TEST(Forecast, FindsHowManySequencesReachARate) {
    const graph::Program program = small_program();
    const double of_three = forecast_decode(program, 3, 0, DType::f16, stepwise()).tokens_per_s();
    EXPECT_EQ(sequences_for(program, of_three, 0, DType::f16, stepwise(), 64), 3);
    EXPECT_EQ(sequences_for(program, 1, 0, DType::f16, stepwise(), 64), 1);
    EXPECT_EQ(sequences_for(program, 1e12, 0, DType::f16, stepwise(), 64), 0);
}

TEST(Speeds, OfATypeThatWasNotMeasuredAreThoseOfTheNextInSize) {
    Speeds speeds = stepwise();
    speeds.products.push_back({.type = DType::q4_0, .points = {{1, 5e-6}}});
    EXPECT_NEAR(product_seconds(speeds, DType::q4_k, 1, {.bytes = 100}), 500e-6, 1e-12);
    EXPECT_NEAR(product_seconds(speeds, DType::bf16, 1, {.bytes = 100}), 100e-6, 1e-12);
}

TEST(Speeds, WithoutMeasurementsReadingAndComputingOverlap) {
    const Speeds speeds{.rates = {.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e9}, .read_share = 0.5};
    EXPECT_NEAR(product_seconds(speeds, DType::f16, 1, {.bytes = 1e9}), 2, 1e-9);
    const double both = product_seconds(speeds, DType::f16, 1, {.bytes = 1e9, .flops = 2e9});
    EXPECT_GT(both, 2);
    EXPECT_LT(both, 4);
}

TEST(Machines, AllSayWhereTheirNumbersComeFrom) {
    ASSERT_FALSE(known_machines().empty());
    for (const KnownMachine& machine : known_machines()) {
        for (const Figure& figure :
             {machine.memory_gb, machine.read_gb_per_s, machine.read_share, machine.matrix_tflops, machine.matrix_share,
              machine.dispatch_us, machine.growth_us, machine.attention_us}) {
            EXPECT_GT(figure.value, 0) << machine.name;
            EXPECT_FALSE(figure.source.empty()) << machine.name;
        }
        EXPECT_LE(machine.read_share.value, 1) << machine.name;
        EXPECT_LE(machine.matrix_share.value, 1) << machine.name;
        EXPECT_EQ(*find_machine(machine.name), &machine);
    }
    EXPECT_FALSE(find_machine("m4-max"));
}

}  // namespace
}  // namespace tandem::plan
