#include "vulkan/patterns.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace tandem::vulkan {
namespace {

using graph::Dim;
using graph::Graph;
using graph::Tensor;

constexpr int kDim = 64;

// The pieces of a decoder layer, with what the tests vary.
struct Layer {
    DType attention = DType::q4_0;
    DType value = DType::q4_0;
    DType ffn = DType::q4_0;
    bool qk_norm = true;
    bool post_norm = true;
    bool v_is_k = false;   // and normed
    bool factors = false;  // on what is added, and on the sum
};

Tensor matrix(Graph& g, const std::string& name, DType dtype, int64_t rows, int64_t cols) {
    return g.weight(name, graph::matrix_type(dtype, Dim::of(rows), cols));
}

Tensor norm(Graph& g, Tensor x, const std::string& name, int64_t cols) {
    return g.rms_norm(x, g.weight(name, graph::vector_type(DType::f32, cols)), 1e-6F);
}

Tensor attention(Graph& g, Tensor x, const Layer& layer) {
    const int cache = g.cache(1, 32, 0);
    const op::Rope rope{.head_dim = 32, .inv_freq = std::vector<float>(16, 0.5F)};
    Tensor q = g.linear(matrix(g, "q", layer.attention, kDim, kDim), x);
    Tensor k = g.linear(matrix(g, "k", layer.attention, 32, kDim), x);
    const Tensor v = layer.v_is_k ? g.bare_norm(k, 32, 1e-6F) : g.linear(matrix(g, "v", layer.value, 32, kDim), x);
    if (layer.qk_norm) {
        q = norm(g, q, "q_norm", 32);
        k = norm(g, k, "k_norm", 32);
    }
    const Tensor written = g.kv_write(g.rope(k, g.positions(), rope), v, cache);
    const Tensor a = g.attention(g.rope(q, g.positions(), rope), written,
                                 {.cache = cache, .heads = 2, .kv_heads = 1, .head_dim = 32});
    return g.linear(matrix(g, "o", layer.attention, kDim, kDim), a);
}

graph::Program program_of(const Layer& layer) {
    Graph g;
    Tensor x = g.embed(matrix(g, "embedding", DType::q8_0, 100, kDim), g.tokens());
    const auto post = [&](Tensor y, const char* name) { return layer.post_norm ? norm(g, y, name, kDim) : y; };
    x = g.add(x, post(attention(g, norm(g, x, "attn_norm", kDim), layer), "post_attn"));
    const Tensor h = norm(g, x, "ffn_norm", kDim);
    const Tensor f = g.glu(g.linear(matrix(g, "gate", layer.ffn, 96, kDim), h),
                           g.linear(matrix(g, "up", layer.ffn, 96, kDim), h), op::Activation::silu);
    const Tensor down = post(g.linear(matrix(g, "down", layer.ffn, kDim, 96), f), "post_ffn");
    x = g.scale(g.add(x, g.scale(down, layer.factors ? 0.5F : 1.0F)), layer.factors ? 3.0F : 1.0F);
    g.result("x", x);
    return std::move(g).finish();
}

Patterns patterns_of(const Layer& layer) {
    const graph::Program program = program_of(layer);
    return find_patterns(program, Uses(program));
}

TEST(Patterns, ValuesThatAreTheKeysAreFound) {
    const Patterns found = patterns_of({.v_is_k = true});
    ASSERT_EQ(found.attention.size(), 1U);
    EXPECT_EQ(found.attention[0].written->v, found.attention[0].written->k.linear);
    EXPECT_TRUE(found.attention[0].written->v_norm);
    EXPECT_TRUE(patterns_of({.qk_norm = false, .v_is_k = true}).attention.empty()) << "one norm without the others";
}

TEST(Patterns, FactorsBelongToTheResidual) {
    const Patterns found = patterns_of({.factors = true});
    ASSERT_EQ(found.residuals.size(), 2U);
    EXPECT_EQ(found.residuals[1].delta_scale, 0.5F);
    EXPECT_EQ(found.residuals[1].sum_scale, 3.0F);
    EXPECT_TRUE(found.residuals[1].scale);
    EXPECT_EQ(found.residuals[0].sum_scale, 1.0F);
}

TEST(Patterns, AGemmaLayerIsFoundWhole) {
    const Patterns found = patterns_of({});
    ASSERT_EQ(found.residuals.size(), 2U);
    EXPECT_TRUE(found.residuals[0].post_norm && found.residuals[0].norm);
    EXPECT_TRUE(found.residuals[1].post_norm);
    EXPECT_FALSE(found.residuals[1].norm) << "nothing follows it";
    EXPECT_EQ(found.norms.size(), 1U) << "the first, which has no residual before it";
    EXPECT_EQ(found.gated.size(), 1U);
    ASSERT_EQ(found.attention.size(), 1U);
    EXPECT_TRUE(found.attention[0].q.norm && found.attention[0].written->k.norm);
}

TEST(Patterns, ALayerWithoutQkAndPostNormsIsFoundToo) {
    const Patterns found = patterns_of({.qk_norm = false, .post_norm = false});
    ASSERT_EQ(found.residuals.size(), 2U);
    EXPECT_FALSE(found.residuals[0].post_norm);
    ASSERT_EQ(found.attention.size(), 1U);
    EXPECT_FALSE(found.attention[0].q.norm);
}

TEST(Patterns, ValuesOfAnotherTypeAreAProductOfTheirOwn) {
    const Patterns found = patterns_of({.value = DType::q8_0});
    ASSERT_EQ(found.attention.size(), 1U);
    EXPECT_TRUE(found.attention[0].written->v_apart);
    EXPECT_EQ(found.norms.size(), 1U) << "both products read the same activations";
    EXPECT_FALSE(patterns_of({}).attention.at(0).written->v_apart);
    EXPECT_TRUE(patterns_of({.value = DType::f32}).attention.empty()) << "what is no product cannot be fused";
}

TEST(Patterns, ActivationsServeOneKindOfWeights) {
    const Patterns found = patterns_of({.value = DType::f16});
    EXPECT_TRUE(found.norms.empty()) << "q and k want int8, v wants f16";
    EXPECT_EQ(found.attention.size(), 1U);
}

TEST(Patterns, WeightsInF32StayAsTheProgramHasThem) {
    const Patterns found = patterns_of({.attention = DType::f32, .value = DType::f32, .ffn = DType::f32});
    EXPECT_TRUE(found.residuals.empty() && found.norms.empty() && found.gated.empty() && found.attention.empty());
}

}  // namespace
}  // namespace tandem::vulkan
