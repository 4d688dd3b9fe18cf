#include "graph/program.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/memory_plan.h"

namespace tandem::graph {
namespace {

// Two norms of an embedding, added, then logits of the chosen rows.
Program small_program() {
    Graph g;
    const Tensor table = g.weight("table", matrix_type(DType::q8_0, Dim::of(100), 64));
    const Tensor norm = g.weight("norm", vector_type(DType::f32, 64));
    const Tensor x = g.embed(table, g.tokens(), 8.0F);
    const Tensor y = g.add(g.rms_norm(x, norm, 1e-6F), x);
    const Tensor logits = g.linear(table, g.select_rows(y, g.output_rows()));
    g.result("logits", logits);
    g.result("next", g.sample(logits));
    return std::move(g).finish();
}

TEST(Program, PrintsOneLineForEachNode) {
    EXPECT_EQ(to_string(small_program()),
              "%3 = embed(table, tokens) scale=8 : f32[tokens, 64]\n"
              "%4 = rms_norm(%3, norm) eps=1e-06 : f32[tokens, 64]\n"
              "%5 = add(%4, %3) : f32[tokens, 64]\n"
              "%7 = select_rows(%5, output_rows) : f32[outputs, 64]\n"
              "%8 = linear(table, %7) : f32[outputs, 100]\n"
              "%9 = sample(%8) : i32[outputs]\n"
              "logits = %8\n"
              "next = %9\n");
}

TEST(Program, KeepsOnlyWhatAResultNeeds) {
    const Program kept = keep_results(small_program(), {"logits"});
    ASSERT_EQ(kept.results.size(), 1U);
    EXPECT_EQ(kept.nodes.size(), 5U);
    EXPECT_EQ(kept.nodes.back().op.name(), "linear");
}

TEST(Program, KeepsResultsInTheOrderAsked) {
    const Program kept = keep_results(small_program(), {"next", "logits"});
    ASSERT_EQ(kept.results.size(), 2U);
    EXPECT_EQ(kept.results[0].name, "next");
    EXPECT_EQ(kept.results[1].name, "logits");
}

TEST(Program, LayersWithTheSameWindowShareAGroup) {
    Graph g;
    EXPECT_EQ(g.cache(2, 64, 128), 0);
    EXPECT_EQ(g.cache(2, 64, 0), 1);
    EXPECT_EQ(g.cache(2, 64, 128), 2);
    const Program program = std::move(g).finish();
    EXPECT_EQ(program.cache_groups(), 2);
    EXPECT_EQ(program.caches[0].group, program.caches[2].group);
    EXPECT_NE(program.caches[0].group, program.caches[1].group);
}

TEST(Op, IsFoundByItsOwnType) {
    const Op op = op::RmsNorm{.eps = 0.5F};
    ASSERT_NE(op.as<op::RmsNorm>(), nullptr);
    EXPECT_EQ(op.as<op::RmsNorm>()->eps, 0.5F);
    EXPECT_EQ(op.as<op::Add>(), nullptr);
}

TEST(MemoryPlan, ValuesAliveTogetherNeverOverlap) {
    const Program program = small_program();
    const Extents extents{.tokens = 10, .outputs = 3};
    const MemoryPlan plan = plan_memory(program, extents);

    // Replay: each value is alive from its node to its last reader (results to the end).
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        for (size_t m = 0; m < n; ++m) {
            const ValueId early = program.nodes[m].output;
            bool alive = false;
            for (const NamedResult& result : program.results) alive |= result.value == early;
            for (size_t reader = n; reader < program.nodes.size(); ++reader) {
                for (ValueId input : program.nodes[reader].inputs) alive |= input == early;
            }
            if (!alive) continue;
            const ValueId late = program.nodes[n].output;
            const auto begin = [&](ValueId id) { return plan.offset[static_cast<size_t>(id)]; };
            const auto end = [&](ValueId id) { return begin(id) + program.value(id).type.size_bytes(extents); };
            EXPECT_TRUE(end(early) <= begin(late) || end(late) <= begin(early)) << early << " and " << late;
            EXPECT_LE(end(late), plan.size_bytes);
        }
    }
}

TEST(MemoryPlan, AChainNeedsTwoBuffersOnly) {
    Graph g;
    const Tensor norm = g.weight("norm", vector_type(DType::f32, 64));
    Tensor x = g.embed(g.weight("table", matrix_type(DType::f32, Dim::of(10), 64)), g.tokens());
    for (int i = 0; i < 20; ++i) x = g.rms_norm(x, norm, 1e-6F);
    g.result("out", x);
    const MemoryPlan plan = plan_memory(std::move(g).finish(), {.tokens = 5, .outputs = 1});
    EXPECT_EQ(plan.size_bytes, 2U * 5 * 64 * sizeof(float));
}

TEST(TensorType, SizesFollowTheStep) {
    const TensorType type = matrix_type(DType::f32, Dim::tokens(), 16);
    EXPECT_EQ(type.size_bytes({.tokens = 3, .outputs = 1}), 3U * 16 * 4);
    EXPECT_EQ(to_string(type), "f32[tokens, 16]");
    EXPECT_EQ((TensorType{DType::i32, {Dim::outputs()}}.size_bytes({.tokens = 3, .outputs = 2})), 8U);
    EXPECT_EQ(matrix_type(DType::q4_0, Dim::of(2), 64).size_bytes({}), 2U * 2 * 18);
}

}  // namespace
}  // namespace tandem::graph
