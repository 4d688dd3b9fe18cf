// --npu: what is said when the cost model has nothing to compare with.
#include "user/npu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cpu/backend.h"
#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::user {
namespace {

// A layer, as placements are about layers.
graph::Program one_layer() {
    graph::Graph g;
    const auto table = graph::matrix_type(DType::f32, graph::Dim::of(8), 32);
    const graph::Tensor x = g.embed(g.weight("table", table), g.tokens(), 1.0F);
    const int cache = g.cache(1, 32, 0);
    const graph::Tensor a = g.attention(x, g.kv_write(x, x, cache),
                                        {.cache = cache, .heads = 1, .kv_heads = 1, .head_dim = 32, .scale = 1.0F});
    g.result("y", g.add(x, a));
    return std::move(g).finish();
}

Result<std::string> notes_of_two_compilations(const std::function<Result<device::Rates>()>& rates) {
    const graph::Program program = one_layer();
    graph::Weights weights;
    weights.add_owned("table", DType::f32, {8, 32}, std::vector<std::byte>(8 * 32 * sizeof(float)));
    std::unique_ptr<device::Backend> main = TRY(cpu::make_backend({.threads = 1}));
    NpuChoice choice;
    choice.npu = "emulator";
    std::string notes;
    const Note note = [&notes](std::string_view line) { notes += std::string(line) + "\n"; };
    const auto both =
        with_npu(std::move(main), {.options = choice, .strict = false, .main_rates = rates, .note = note});
    for (int i = 0; i < 2 && both; ++i) {
        auto cache = (*both)->make_cache({.layers = program.caches, .block_tokens = 32, .blocks = {1}});
        EXPECT_TRUE(
            (*both)->compile(program, weights, *cache, {.limits = {.tokens = 8, .outputs = 8}, .results = {"y"}}));
    }
    if (!both) return both.error();
    return notes;
}

TEST(NpuOption, RatesThatCannotBeMeasuredAreNotedOnceWithTheRemedy) {
    const auto notes =
        notes_of_two_compilations([]() -> Result<device::Rates> { return fail("the clock stands still"); });
    ASSERT_TRUE(notes) << notes.error().message;
    EXPECT_THAT(*notes, testing::HasSubstr("the rates of cpu could not be measured (the clock stands still)"));
    EXPECT_THAT(*notes, testing::HasSubstr("name one by --placement"));
    EXPECT_EQ(std::count(notes->begin(), notes->end(), '\n'), 1) << *notes;
}

TEST(NpuOption, RatesThatWereMeasuredAreNotNoted) {
    const auto notes = notes_of_two_compilations(
        []() -> Result<device::Rates> { return device::Rates{.read_bytes_per_s = 1e12, .matrix_flops_per_s = 1e15}; });
    ASSERT_TRUE(notes) << notes.error().message;
    EXPECT_EQ(*notes, "");
}

}  // namespace
}  // namespace tandem::user
