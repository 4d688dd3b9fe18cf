// The cost model with an NPU that says what it takes: time, memory that both share, and what stays with the main
// device.
#include "plan/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/ops.h"

namespace tandem::plan {
namespace {

// Two layers of attention with a product each; what comes before and after is not of a layer.
graph::Program layered_program() {
    graph::Graph g;
    const auto square = graph::matrix_type(DType::f16, graph::Dim::of(64), 64);
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(100), 64));
    graph::Tensor x = g.embed(table, g.tokens(), 1.0F);
    for (const char* layer : {"0", "1"}) {
        const graph::Tensor k = g.linear(g.weight(std::string("k") + layer, square), x);
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
    const device::Description& describe() const override { return description_; }
    bool supports(const graph::Program& /*program*/, const graph::Node& node) const override {
        return node.op.as<op::Linear>() == nullptr;
    }
    std::optional<double> predict(const graph::Program& program, const device::Batch& /*batch*/) const override {
        return 1e-3 * static_cast<double>(program.nodes.size());
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
};

TEST(Cost, BothDevicesShareTheMemory) {
    const graph::Program program = layered_program();
    const TimedNpu npu;
    Machine machine{.main = {.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e12}, .npu = &npu};
    const ChunkShape chunk{.rows = 64, .micro_rows = 32};
    const Placement placement{.policy = Policy::npu_attention};
    const Prediction apart = predict(program, placement, chunk, machine);
    EXPECT_LT(apart.memory_bytes / 1e9, apart.seconds);
    // Two layers in two micro-batches, each with as many bytes as the memory moves in half a second.
    machine.npu_bytes = [](const graph::Program&, const device::Batch&) { return 0.5e9; };
    const Prediction shared = predict(program, placement, chunk, machine);
    EXPECT_DOUBLE_EQ(shared.memory_bytes, apart.memory_bytes + 4 * 0.5e9);
    EXPECT_DOUBLE_EQ(shared.seconds, shared.memory_bytes / 1e9);
    EXPECT_DOUBLE_EQ(shared.npu_busy_s, apart.npu_busy_s);
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
