// Steps: nodes of a Program on the emulated array, in the shapes that its designs do not take as they are.
#include "npu/backend.h"
#include "npu/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/builder.h"
#include "graph/ops.h"
#include "npu/emulator_runtime.h"

namespace tandem::npu {
namespace {

constexpr int kTokens = 5;

// One op over a row of floats for each token.
struct OneOp {
    graph::Program program;
    std::vector<float> x, y;
    std::vector<int32_t> positions;

    Status run(const graph::Weights& weights) {
        const graph::Node& node = program.nodes.back();
        Workshop shop(TRY(make_emulator_runtime()), *find_array("npu1"));
        const auto operand = [&](graph::ValueId id) {
            const int64_t cols = program.value(id).type.cols();
            return Operand{.buffer = *shop.allocate(static_cast<uint64_t>(kTokens * cols) * sizeof(float)),
                           .rows = kTokens,
                           .cols = cols};
        };
        const Operand in = operand(node.inputs[x_input]);
        const Operand out = operand(node.output);
        std::copy(x.begin(), x.end(), in.data());
        const StepMaker* const maker = find_step(program, node);
        if (maker == nullptr) return fail("{}", obstacle_of(program, node));
        const std::unique_ptr<Step> step = TRY(maker->make(
            shop,
            {.program = program, .node = node, .weights = weights, .cache = nullptr, .value = [&](graph::ValueId id) {
                 return id == node.output ? out : in;
             }}));
        device::Batch batch;
        batch.tokens.resize(kTokens);
        batch.positions = positions;
        TRY(step->run({.batch = batch, .rows = kTokens}));
        y.assign(out.data(), out.data() + kTokens * out.cols);
        return Ok{};
    }

    size_t x_input = 0;
};

OneOp with_random_rows(graph::Program program, int64_t cols, size_t x_input) {
    OneOp made{.program = std::move(program), .x = {}, .y = {}, .positions = {0, 3, 4, 5, 100}, .x_input = x_input};
    std::mt19937 random(11);
    std::uniform_real_distribution<float> uniform(-2, 2);
    made.x.resize(static_cast<size_t>(kTokens * cols));
    for (float& value : made.x) value = uniform(random);
    return made;
}

op::Rope rope_of(int head_dim, int pairs, op::RopeLayout layout) {
    op::Rope rope{.head_dim = head_dim, .layout = layout, .magnitude = 1.25F, .inv_freq = {}};
    for (int i = 0; i < pairs; ++i) rope.inv_freq.push_back(std::pow(0.7F, static_cast<float>(i)));
    return rope;
}

void expect_rope(int heads, const op::Rope& rope) {
    const int64_t cols = int64_t{heads} * rope.head_dim;
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(8), cols)), g.tokens(), 1.0F);
    g.result("y", g.rope(x, g.positions(), rope));
    OneOp one = with_random_rows(std::move(g).finish(), cols, 0);
    const Status ran = one.run({});
    ASSERT_TRUE(ran) << ran.error().message;
    std::vector<double> expected(one.x.begin(), one.x.end());
    const bool half = rope.layout == op::RopeLayout::half;
    const size_t pairs = rope.inv_freq.size();
    for (size_t head = 0; head < kTokens * static_cast<size_t>(heads); ++head) {
        for (size_t i = 0; i < pairs; ++i) {
            const size_t from = head * static_cast<size_t>(rope.head_dim);
            const size_t a = from + (half ? i : 2 * i);
            const size_t b = from + (half ? pairs + i : 2 * i + 1);
            const double angle =
                static_cast<double>(one.positions[head / static_cast<size_t>(heads)]) * rope.inv_freq[i];
            const double cosine = rope.magnitude * std::cos(angle);
            const double sine = rope.magnitude * std::sin(angle);
            expected[a] = one.x[a] * cosine - one.x[b] * sine;
            expected[b] = one.x[a] * sine + one.x[b] * cosine;
        }
    }
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(one.y[i], expected[i], 2e-6) << i;
}

TEST(RopeStep, HeadsThatFillWholeVectors) {
    expect_rope(3, rope_of(64, 32, op::RopeLayout::half));
    expect_rope(3, rope_of(64, 32, op::RopeLayout::interleaved));
}

TEST(RopeStep, HeadsThatAreNoMultipleOf32) {
    expect_rope(3, rope_of(80, 40, op::RopeLayout::half));
    expect_rope(2, rope_of(24, 12, op::RopeLayout::interleaved));
}

TEST(RopeStep, APartOfEachHead) {
    expect_rope(3, rope_of(64, 8, op::RopeLayout::half));
    expect_rope(3, rope_of(64, 20, op::RopeLayout::interleaved));
}

// 64 heads of 128 are 32 KB: with the result, more than a core has.
TEST(RopeStep, MoreHeadsThanACoreHasMemoryFor) {
    expect_rope(64, rope_of(128, 64, op::RopeLayout::half));
}

// The host packs what several products take once; what it does is in the prediction, in time and in bytes.
TEST(LinearStep, IsPredictedWithWhatTheHostPacks) {
    constexpr int64_t kIn = 512;
    constexpr int64_t kOut = 256;
    const auto predicted = [&](int products) {
        graph::Graph g;
        const graph::Tensor x =
            g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(8), kIn)), g.tokens(), 1.0F);
        for (int i = 0; i < products; ++i) {
            const std::string name = "w" + std::to_string(i);
            g.result(name, g.linear(g.weight(name, graph::matrix_type(DType::f32, graph::Dim::of(kOut), kIn)), x));
        }
        graph::Program program = std::move(g).finish();
        program.nodes.erase(program.nodes.begin());  // what comes before the first product is not the NPU's
        device::Batch batch;
        batch.tokens.resize(64);
        const std::unique_ptr<device::Backend> npu = make_backend(make_emulator_runtime().value(), *find_array("npu1"));
        return npu->predict(program, batch).value();
    };
    const Array& array = *find_array("npu1");
    const Cost product = *cost_of(*gemm_i8(*gemm_layout({.m = 64, .k = kIn, .n = kOut, .array = "npu1"})), array);
    const Cost packing = cost_of(HostWork{.rounded = 64 * kIn});
    EXPECT_GT(packing.seconds, 0);
    EXPECT_GE(packing.memory_bytes, 64 * kIn * 5);  // floats read, int8 written
    for (const int products : {1, 3}) {
        EXPECT_NEAR(predicted(products).seconds, products * product.seconds + packing.seconds, 1e-12);
        EXPECT_NEAR(predicted(products).memory_bytes, products * product.memory_bytes + packing.memory_bytes, 1e-3);
    }
}

// Whole numbers below 127 with 127 among them are rounded to themselves, so that nothing but the bias is new.
TEST(LinearStep, AddsItsBias) {
    constexpr int64_t kIn = 40;
    constexpr int64_t kOut = 24;
    std::vector<float> matrix(kIn * kOut);
    std::vector<float> bias(kOut);
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] = i % kIn == 0 ? 127 : static_cast<float>(i * 7 % 19) - 9;
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = 1000.5F * static_cast<float>(i) - 7000;
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(8), kIn)), g.tokens(), 1.0F);
    g.result("y", g.linear(g.weight("w", graph::matrix_type(DType::f32, graph::Dim::of(kOut), kIn)), x,
                           g.weight("b", graph::vector_type(DType::f32, kOut))));
    graph::Weights weights;
    weights.add("w", {.dtype = DType::f32, .shape = {kOut, kIn}, .data = std::as_bytes(std::span(matrix))});
    weights.add("b", {.dtype = DType::f32, .shape = {kOut}, .data = std::as_bytes(std::span(bias))});
    OneOp one = with_random_rows(std::move(g).finish(), kIn, 1);
    for (size_t i = 0; i < one.x.size(); ++i) one.x[i] = i % kIn == 1 ? -127 : static_cast<float>(i * 5 % 23) - 11;
    const Status ran = one.run(weights);
    ASSERT_TRUE(ran) << ran.error().message;
    for (size_t row = 0; row < kTokens; ++row) {
        for (size_t n = 0; n < kOut; ++n) {
            double sum = bias[n];
            for (size_t k = 0; k < kIn; ++k) sum += static_cast<double>(one.x[row * kIn + k]) * matrix[n * kIn + k];
            EXPECT_NEAR(one.y[row * kOut + n], sum, 0.02) << row << ", " << n;
        }
    }
}

}  // namespace
}  // namespace tandem::npu
