// The result "hidden": what the logits are made from, alone and together with them, on every device.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "cpu/backend.h"
#include "format/quant.h"
#include "golden/model_files.h"
#include "graph/ops.h"
#include "models/export.h"
#include "models/model.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::golden {
namespace {

using Rows = std::vector<std::vector<float>>;  // of each result

// The results for the last two of a few tokens.
Rows run(device::Backend& backend, const models::Model& model, const std::vector<std::string>& results) {
    const std::vector<int32_t> table = {0};
    auto cache = backend.make_cache({.layers = model.program.caches,
                                     .block_tokens = 16,
                                     .blocks = std::vector<int>(static_cast<size_t>(model.program.cache_groups()), 1)});
    const auto executable = backend
                                .compile(model.program, model.weights, std::move(cache).value(),
                                         {.limits = {.tokens = 8, .outputs = 2}, .results = results})
                                .value();
    device::Batch batch;
    batch.tokens = {3, 1, 4, 1, 5};
    batch.positions = {0, 1, 2, 3, 4};
    batch.output_rows = {3, 4};
    device::SequenceRows rows{.first_row = 0, .rows = 5, .past = 0, .blocks = {}};
    rows.blocks.fill(table);
    batch.sequences = {rows};
    const Status done = device::run(*executable, batch);
    EXPECT_TRUE(done) << done.error().message;
    Rows values;
    for (size_t i = 0; i < results.size(); ++i) {
        const auto result = device::result_as<float>(*executable, i);
        values.emplace_back(result.begin(), result.end());
    }
    return values;
}

// The matrix of the Program's last product, and the cap on what comes out of it.
struct Output {
    int64_t rows;
    std::vector<float> matrix;
    float softcap = 0.0F;
};

Output output_of(const models::Model& model) {
    Output output{};
    for (const graph::Node& node : model.program.nodes) {
        if (const auto* cap = node.op.as<op::Softcap>()) output.softcap = cap->cap;
        if (node.op.as<op::Linear>() == nullptr) continue;
        const graph::WeightView& view = *model.weights.find(model.program.value(node.inputs[0]).name);
        output.rows = view.shape[0];
        output.matrix.resize(static_cast<size_t>(view.shape[0] * view.shape[1]));
        format::decode_row(view.dtype, view.data.data(), output.matrix.data(), view.shape[0] * view.shape[1]);
    }
    return output;
}

std::vector<float> logits_of(const Output& output, const std::vector<float>& hidden) {
    const size_t dim = output.matrix.size() / static_cast<size_t>(output.rows);
    std::vector<float> logits;
    for (size_t row = 0; row < hidden.size() / dim; ++row) {
        for (size_t i = 0; i < static_cast<size_t>(output.rows); ++i) {
            const double sum = std::inner_product(hidden.begin() + static_cast<int64_t>(row * dim),
                                                  hidden.begin() + static_cast<int64_t>((row + 1) * dim),
                                                  output.matrix.begin() + static_cast<int64_t>(i * dim), 0.0);
            const double cap = output.softcap;
            logits.push_back(static_cast<float>(cap > 0 ? cap * std::tanh(sum / cap) : sum));
        }
    }
    return logits;
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected, float tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    float largest = 0;
    for (float value : expected) largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << i;
}

void expect_logits_of_hidden(device::Backend& backend, const models::Model& model, float tolerance) {
    const Rows both = run(backend, model, {"logits", "hidden"});
    ASSERT_EQ(both[1].size(), 2 * static_cast<size_t>(model.dim));
    expect_close(both[0], logits_of(output_of(model), both[1]), tolerance);
    expect_close(run(backend, model, {"hidden"})[0], both[1], 1e-6F);
}

TEST(Hidden, GivesTheLogitsOnTheCpu) {
    const auto backend = cpu::make_backend({.threads = 2}).value();
    for (const char* name : {"gemma3-softcap", "llama", "qwen3"}) {
        SCOPED_TRACE(name);
        const auto checkpoint = format::Checkpoint::open(golden_dir(name)).value();
        expect_logits_of_hidden(*backend, models::load(checkpoint).value(), 1e-5F);
    }
}

#ifdef TANDEM_VULKAN
TEST(Hidden, GivesTheLogitsOnVulkan) {
    const auto original = format::Checkpoint::open(golden_dir("gemma3-softcap")).value();
    const auto exact = vulkan::make_backend({.exact = true, .validation = true}).value();
    expect_logits_of_hidden(*exact, models::load(original).value(), 1e-5F);

    // Fused: the last product rounds its input to f16.
    const TempDir dir;
    ThreadPool threads(2);
    ASSERT_TRUE(models::export_gguf(original, dir.path() / "model.gguf", {.type = DType::f16, .threads = &threads}));
    const auto checkpoint = format::Checkpoint::open(dir.path() / "model.gguf").value();
    const auto fused = vulkan::make_backend({.validation = true}).value();
    expect_logits_of_hidden(*fused, models::load(checkpoint).value(), 0x1p-9F);
}
#endif

}  // namespace
}  // namespace tandem::golden
