// Steps: nodes of a Program on the emulated array, in the shapes that its designs do not take as they are.
#include "npu/backend.h"
#include "npu/step.h"

#include <gtest/gtest.h>

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
        y.resize(static_cast<size_t>(kTokens * program.value(node.output).type.cols()));
        const Operand in{.values = x.data(), .rows = kTokens, .cols = program.value(node.inputs[x_input]).type.cols()};
        const Operand out{.values = y.data(), .rows = kTokens, .cols = program.value(node.output).type.cols()};
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

// Of what lies between products the host runs all: the array has no designs for it.
TEST(HostOps, StayWithTheHost) {
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(8), 64)), g.tokens(), 1.0F);
    g.result("y", g.add(x, g.rms_norm(x, g.weight("norm", graph::vector_type(DType::f32, 64)), 1e-6F)));
    const graph::Program program = std::move(g).finish();
    const auto host = [&](size_t node) { return is_host_op(program, program.nodes[node]); };
    EXPECT_FALSE(host(0));  // what is no activation op is the main device's
    EXPECT_TRUE(host(1));
    EXPECT_TRUE(host(2));
    EXPECT_EQ(obstacle_of(program, program.nodes[1]), "");
    EXPECT_EQ(find_step(program, program.nodes[1]), nullptr);
    device::Batch batch;
    batch.tokens.resize(64);
    EXPECT_GT(predict_host_op(program, program.nodes[1], batch).seconds, 0);
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
        const std::unique_ptr<device::Backend> npu =
            make_backend(make_emulator_runtime().value(), *find_array("npu1"), nullptr);
        return npu->predict(program, batch).value();
    };
    const Array& array = *find_array("npu1");
    const GemmLayout layout = *gemm_layout({.m = 64, .k = kIn, .n = kOut, .array = "npu1"});
    Cost product = *cost_of(*gemm_i8(layout), {array}, gemm_samples(layout, 64));
    product += cost_of(HostWork{.flushed = static_cast<double>(layout.y_bytes())});
    const Cost packing = cost_of(HostWork{.rounded = 64 * kIn, .flushed = 256 * kIn});
    EXPECT_GT(packing.seconds, 0);
    EXPECT_GE(packing.memory_bytes, 64 * kIn * 5);  // floats read, int8 written
    for (const int products : {1, 3}) {
        // With one change to this design.
        EXPECT_NEAR(predicted(products).seconds, products * product.seconds + packing.seconds + kMiddle.change_s,
                    1e-12);
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
