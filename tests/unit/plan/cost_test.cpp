// The cost model with an NPU that says what it takes: time, memory that both share, and what stays with the main
// device.
#include "plan/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::plan {
namespace {

// Layers of attention with a product each; what comes before and after is not of a layer.
graph::Program layered_program(int layers = 2) {
    graph::Graph g;
    const auto square = graph::matrix_type(DType::f16, graph::Dim::of(64), 64);
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(100), 64));
    graph::Tensor x = g.embed(table, g.tokens(), 1.0F);
    for (int layer = 0; layer < layers; ++layer) {
        const graph::Tensor k = g.linear(g.weight("k" + std::to_string(layer), square), x);
        const int cache = g.cache(1, 64, 0);
        const graph::Tensor a = g.attention(x, g.kv_write(k, k, cache),
                                            {.cache = cache, .heads = 1, .kv_heads = 1, .head_dim = 64, .scale = 1.0F});
        x = g.add(x, a);
    }
    g.result("logits", g.linear(table, g.select_rows(x, g.output_rows())));
    return std::move(g).finish();
}

class TimedNpu final : public device::Backend {
  public:
    using Model = std::function<device::StepCost(const graph::Program& segment)>;
    explicit TimedNpu(Model model, bool multiplies = false) : model_(std::move(model)), multiplies_(multiplies) {}

    device::Description describe() const override { return description_; }
    bool supports(const graph::Program& /*program*/, const graph::Node& node) const override {
        return multiplies_ || node.op.as<op::Linear>() == nullptr;
    }
    std::optional<device::StepCost> predict(const graph::Program& program,
                                            const device::Batch& /*batch*/) const override {
        return model_(program);
    }
    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape /*shape*/) override { return fail("no"); }
    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& /*program*/,
                                                        const graph::Weights& /*weights*/,
                                                        std::shared_ptr<device::KvCache> /*cache*/,
                                                        const device::CompileOptions& /*options*/) override {
        return fail("no");
    }

  private:
    device::Description description_;
    Model model_;
    bool multiplies_;
};

TEST(Cost, BothDevicesShareTheMemory) {
    const graph::Program program = layered_program();
    const device::Rates rates{.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e12};
    const ChunkShape chunk{.rows = 64, .micro_rows = 32};
    const Placement placement{.policy = Policy::npu_attention};
    const TimedNpu moves_nothing([](const graph::Program&) { return device::StepCost{.seconds = 1e-3}; });
    const Prediction apart = predict(program, placement, chunk, {.main = rates, .npu = &moves_nothing});
    EXPECT_LT(apart.memory_bytes / 1e9, apart.seconds);
    // Two layers in two micro-batches, each with as many bytes as the memory moves in half a second.
    const TimedNpu moves_much(
        [](const graph::Program&) { return device::StepCost{.seconds = 1e-3, .memory_bytes = 0.5e9}; });
    const Prediction shared = predict(program, placement, chunk, {.main = rates, .npu = &moves_much});
    EXPECT_DOUBLE_EQ(shared.memory_bytes, apart.memory_bytes + 4 * 0.5e9);
    EXPECT_DOUBLE_EQ(shared.seconds, shared.memory_bytes / 1e9);
    EXPECT_DOUBLE_EQ(shared.npu_busy_s, apart.npu_busy_s);
}

TEST(Cost, ADispatchTakesItsTimeHoweverLittleItDoes) {
    const Machine endless{.main = {.read_bytes_per_s = 1e30, .matrix_flops_per_s = 1e30}};
    const Placement alone{.policy = Policy::main_only};
    const ChunkShape chunk{.rows = 64, .micro_rows = 32};
    // A product and attention for each layer, and the product of the logits.
    EXPECT_NEAR(predict(layered_program(2), alone, chunk, endless).seconds, 5 * kDispatchSeconds, 1e-12);
    EXPECT_NEAR(predict(layered_program(9), alone, chunk, endless).seconds, 19 * kDispatchSeconds, 1e-12);
}

// An NPU that is slow to begin: best are all layers, in one segment, and of those one by one the fewest. Searching by
// halves would stop there.
TEST(Cost, TheLayersOfTheNpuAreTheBestOfAllNumbersOfThem) {
    constexpr int kLayers = 9;
    const graph::Program program = layered_program(kLayers);
    const TimedNpu npu(
        [](const graph::Program& segment) {
            return device::StepCost{.seconds = segment.nodes.size() >= 4 * kLayers ? 1e-3 : 3e-3};
        },
        true);
    const Machine machine{.main = {.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e9}, .npu = &npu};
    const ChunkShape chunk{.rows = 64, .micro_rows = 32};
    std::vector<double> seconds;
    for (int layers = 1; layers <= kLayers; ++layers)
        seconds.push_back(
            predict(program, {.policy = Policy::npu_prefill, .npu_layers = layers}, chunk, machine).seconds);
    int valleys = 0;
    for (size_t i = 0; i < seconds.size(); ++i) {
        const bool falls = i == 0 || seconds[i] < seconds[i - 1];
        const bool rises = i + 1 == seconds.size() || seconds[i] < seconds[i + 1];
        valleys += falls && rises ? 1 : 0;
    }
    EXPECT_GT(valleys, 1) << testing::PrintToString(seconds);
    EXPECT_EQ(best_npu_prefill(program, chunk, machine).seconds, *std::min_element(seconds.begin(), seconds.end()));
}

TEST(Placement, SaysWhatStaysWithTheMainDeviceAndWhy) {
    const Obstacle no_products = [](const graph::Program&, const graph::Node& node) -> std::string {
        return node.op.as<op::Linear>() == nullptr ? "" : "it cannot multiply";
    };
    const graph::Program program = layered_program();
    EXPECT_THAT(describe_left(program, {.policy = Policy::npu_prefill, .npu_layers = 2}, no_products),
                testing::ElementsAre("2 x linear: it cannot multiply"));
    EXPECT_THAT(describe_left(program, {.policy = Policy::npu_attention}, no_products), testing::IsEmpty());
    EXPECT_THAT(describe_left(program, {.policy = Policy::main_only}, no_products), testing::IsEmpty());
}

}  // namespace
}  // namespace tandem::plan
