#include "plan/work.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::plan {
namespace {

// One product of all rows, attention with a window over them, and a product of the rows that are wanted.
graph::Program small_program(int window) {
    graph::Graph g;
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(100), 8));
    const graph::Tensor x = g.embed(table, g.tokens(), 1.0F);
    const graph::Tensor q = g.linear(g.weight("q", graph::matrix_type(DType::f16, graph::Dim::of(8), 8)), x);
    const int cache = g.cache(1, 4, window);
    const graph::Tensor half = g.weight("kv", graph::matrix_type(DType::f16, graph::Dim::of(4), 8));
    const graph::Tensor written = g.kv_write(g.linear(half, x), g.linear(half, x), cache);
    const graph::Tensor a = g.attention(
        q, written, {.cache = cache, .heads = 2, .kv_heads = 1, .head_dim = 4, .scale = 1.0F, .window = window});
    g.result("logits", g.linear(table, g.select_rows(a, g.output_rows())));
    return std::move(g).finish();
}

device::Batch batch_of(int past, int rows, int outputs) {
    device::Batch batch;
    batch.tokens.resize(static_cast<size_t>(rows));
    batch.output_rows.resize(static_cast<size_t>(outputs));
    batch.sequences = {{.first_row = 0, .rows = rows, .past = past, .blocks = {}}};
    return batch;
}

constexpr double kProjections = 8 * 8 + 2 * 4 * 8;  // elements of q, k and v
constexpr double kHead = 100 * 8;
constexpr double kCacheBytes = 2 * 4 * 2;  // of a position, in f16

TEST(Work, CountsEachWeightOnceAndEachRowsProducts) {
    const Work work = work_of(small_program(0), batch_of(5, 1, 1), DType::f16);
    EXPECT_EQ(work.bytes, 2 * kProjections + 4 * kHead + 6 * kCacheBytes);
    EXPECT_EQ(work.flops, 2 * kProjections + 2 * kHead + 4 * 6 * 2 * 4);
}

TEST(Work, LeavesOutTheHeadWhereNobodyWantsARow) {
    const Work work = work_of(small_program(0), batch_of(0, 3, 0), DType::f16);
    EXPECT_EQ(work.bytes, 2 * kProjections + 3 * kCacheBytes);
    EXPECT_EQ(work.flops, 3 * 2 * kProjections + 4 * (1 + 2 + 3) * 2 * 4);
}

TEST(Work, SeesNoFurtherThanTheWindow) {
    const Work work = work_of(small_program(4), batch_of(10, 2, 0), DType::f16);
    EXPECT_EQ(work.bytes, 2 * kProjections + 5 * kCacheBytes);
    EXPECT_EQ(work.flops, 2 * 2 * kProjections + 4 * (4 + 4) * 2 * 4);
}

// Of 8 experts of 4 x 8, of which 2 are used: a row reads 2, many rows all of them.
TEST(Work, CountsTheExpertsThatRowsReach) {
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(100), 8)), g.tokens());
    const graph::Tensor routing = g.route(x, {.used = 2});
    const graph::Tensor experts =
        g.weight("experts", {DType::f16, {graph::Dim::of(8), graph::Dim::of(4), graph::Dim::of(8)}});
    g.result("y", g.expert_linear({.weight = experts, .first = 1, .count = 3}, x, routing));
    const graph::Program program = std::move(g).finish();
    const double each = 3 * 8 * 2;
    const Work one = work_of(program, batch_of(0, 1, 0), DType::f16);
    EXPECT_DOUBLE_EQ(one.bytes, 2 * each);
    EXPECT_DOUBLE_EQ(one.flops, 2 * 2 * 3 * 8);
    EXPECT_DOUBLE_EQ(work_of(program, batch_of(0, 2, 0), DType::f16).bytes, (2 + 2 * 6 / 8.0) * each);
    EXPECT_NEAR(work_of(program, batch_of(0, 1000, 0), DType::f16).bytes, 8 * each, 1e-9);
}

}  // namespace
}  // namespace tandem::plan
