#include "graph/segment.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tandem::graph {
namespace {

// x = embed; y = x + norm(x); z = y + norm(y); logits of the chosen rows.
Program two_blocks() {
    Graph g;
    const Tensor table = g.weight("table", matrix_type(DType::f32, Dim::of(100), 64));
    const Tensor norm = g.weight("norm", vector_type(DType::f32, 64));
    Tensor x = g.embed(table, g.tokens());
    for (int block = 0; block < 2; ++block) x = g.add(x, g.rms_norm(x, norm, 1e-6F));
    g.result("logits", g.linear(table, g.select_rows(x, g.output_rows())));
    return std::move(g).finish();
}

TEST(Segment, CrossingValuesAreResultsOfOneAndInputsOfTheNext) {
    const Program program = two_blocks();
    const std::vector<int> devices = {0, 0, 0, 1, 1, 0, 0};
    const std::vector<Segment> segments = cut(program, devices);
    ASSERT_EQ(segments.size(), 3U);
    EXPECT_EQ(to_string(segments[0].program),
              "%2 = embed(table, tokens) : f32[tokens, 64]\n"
              "%4 = rms_norm(%2, norm) eps=1e-06 : f32[tokens, 64]\n"
              "%5 = add(%2, %4) : f32[tokens, 64]\n"
              "%5 = %5\n");
    EXPECT_EQ(to_string(segments[1].program),
              "%2 = rms_norm(%5, norm) eps=1e-06 : f32[tokens, 64]\n"
              "%3 = add(%5, %2) : f32[tokens, 64]\n"
              "%7 = %3\n");
    EXPECT_EQ(segments[1].device, 1);
    EXPECT_EQ(segments[2].program.results.back().name, "logits");
}

TEST(Segment, OneDeviceIsOneSegment) {
    const Program program = two_blocks();
    const std::vector<Segment> segments = cut(program, std::vector<int>(program.nodes.size(), 0));
    ASSERT_EQ(segments.size(), 1U);
    EXPECT_EQ(segments[0].program.nodes.size(), program.nodes.size());
    EXPECT_EQ(segments[0].program.results.size(), 1U);
}

TEST(Segment, CountsWhatCrossesACut) {
    // embed | norm, add | norm, add | select, linear
    EXPECT_EQ(crossing_counts(two_blocks()), (std::vector<int>{0, 1, 2, 1, 2, 1, 1}));
}

TEST(Segment, TakesTheCachesThatItUses) {
    Graph g;
    const Tensor table = g.weight("table", matrix_type(DType::f32, Dim::of(100), 64));
    Tensor x = g.embed(table, g.tokens());
    for (int window : {0, 8, 0, 16}) {
        const int cache = g.cache(2, 32, window);
        const Tensor kept = g.kv_write(x, x, cache);
        x = g.add(x,
                  g.attention(x, kept, {.cache = cache, .heads = 2, .kv_heads = 2, .head_dim = 32, .window = window}));
    }
    g.result("hidden", x);
    const Program program = std::move(g).finish();
    std::vector<int> devices(program.nodes.size(), 0);
    std::fill(devices.begin() + 1 + 2 * 3, devices.end(), 1);  // the last two layers
    std::vector<Segment> segments = cut(program, devices);
    EXPECT_EQ(take_caches(segments[1].program), (std::vector<int>{2, 3}));
    ASSERT_EQ(segments[1].program.caches.size(), 2U);
    EXPECT_EQ(segments[1].program.caches[1].window, 16);
    EXPECT_EQ(segments[1].program.caches[1].group, program.caches[3].group);
    const std::string text = to_string(segments[1].program);
    EXPECT_NE(text.find("cache=0"), std::string::npos);
    EXPECT_EQ(text.find("cache=2"), std::string::npos);
}

}  // namespace
}  // namespace tandem::graph
