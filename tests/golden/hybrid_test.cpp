// Golden models run by two devices together. With two that compute alike, cutting the Program and the batch changes no
// bit; with the NPU's emulator, logits are as far off as int8 rounds.
#include "plan/hybrid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cpu/backend.h"
#include "format/quant.h"
#include "golden/model_files.h"
#include "golden/relative_error.h"
#include "golden/run_program.h"
#include "graph/ops.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::golden {
namespace {

constexpr int kHybridTokens = 40;

const std::string kGoldenModels[] = {"gemma2",          "gemma3",       "gemma3-linear-rope",
                                     "gemma3-softcap",  "gemma4",       "gemma4-e",
                                     "glm4-moe",        "gpt-oss",      "granite",
                                     "llama",           "llama-bias",   "llama-linear",
                                     "llama-yarn",      "llama3-rope",  "ministral3",
                                     "mistral",         "mistral-full", "mixtral",
                                     "olmo2",           "phi3",         "qwen2",
                                     "qwen2-moe",       "qwen2-window", "qwen3",
                                     "qwen3-bias-yarn", "qwen3-moe",    "smollm3"};

std::unique_ptr<device::Backend> reference_device() {
    return cpu::make_backend({.threads = 1, .reference = true}).value();
}

// Runs what the NPU would be given, and as the reference does.
class NpuThatDoesNotRound final : public device::Backend {
  public:
    device::Description describe() const override { return reference_->describe(); }
    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return npu::obstacle_of(program, node).empty();
    }
    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        return reference_->make_cache(shape);
    }
    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        return reference_->compile(program, weights, std::move(cache), options);
    }

  private:
    std::unique_ptr<device::Backend> reference_ = reference_device();
};

std::unique_ptr<device::Backend> emulated_npu(int64_t fails_after = -1) {
    return npu::make_backend(npu::make_emulator_runtime({.fails_after = fails_after}).value(), *npu::find_array("npu1"),
                             reference_device());
}

std::vector<int32_t> hybrid_tokens(int vocab) {
    std::vector<int32_t> tokens;
    tokens.reserve(kHybridTokens);
    for (int i = 0; i < kHybridTokens; ++i) tokens.push_back((i * 37 + 11) % vocab);
    return tokens;
}

// In chunks of 24 and 16.
std::vector<float> chunked_logits(device::Backend& device, const models::Model& model, DType kv_dtype = DType::f32) {
    const std::vector<int32_t> tokens = hybrid_tokens(static_cast<int>(model.vocab));
    auto sequence = Sequence::start(device, model, kHybridTokens, kv_dtype);
    EXPECT_TRUE(sequence) << sequence.error().message;
    std::vector<float> logits;
    for (const auto& chunk : {std::span(tokens).first(24), std::span(tokens).subspan(24)}) {
        auto rows = sequence->feed(chunk);
        EXPECT_TRUE(rows) << rows.error().message;
        logits.insert(logits.end(), rows->begin(), rows->end());
    }
    return logits;
}

class Hybrid : public testing::TestWithParam<std::string> {};

// Wherever the NPU leaves nodes to the main device.
TEST_P(Hybrid, TwoEqualDevicesGiveEveryBitThatOneGives) {
    const auto checkpoint = format::Checkpoint::open(golden_dir(GetParam())).value();
    const models::Model model = models::load(checkpoint).value();
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    for (const plan::Policy policy :
         {plan::Policy::npu_attention, plan::Policy::npu_prefill, plan::Policy::npu_alone}) {
        auto timeline = std::make_shared<plan::Timeline>();
        const std::unique_ptr<device::Backend> both =
            plan::make_hybrid(reference_device(), std::make_unique<NpuThatDoesNotRound>(),
                              {.policy = policy, .npu_layers = 2, .micro_rows = 7, .timeline = timeline});
        EXPECT_EQ(chunked_logits(*both, model), expected) << name(policy);
        EXPECT_GT(timeline->spans().size(), 0U);
    }
}

// A golden model, of which every row goes to all experts where it has them: which of them it goes to is no continuous
// function of what was rounded.
struct Smooth {
    TempDir dir;
    std::optional<format::Checkpoint> checkpoint;
    models::Model model;
};

std::unique_ptr<Smooth> open_smooth(const std::string& name) {
    auto smooth = std::make_unique<Smooth>();
    HfModel files = read_hf(golden_dir(name));
    for (const char* count : {"num_experts", "num_local_experts", "n_routed_experts"}) {
        const auto found = files.config.find(count);
        if (found != files.config.end() && found->is_number()) files.config["num_experts_per_tok"] = *found;
    }
    write_hf(files, smooth->dir.path());
    smooth->checkpoint.emplace(format::Checkpoint::open(smooth->dir.path()).value());
    smooth->model = models::load(*smooth->checkpoint).value();
    return smooth;
}

// How far logits are from those of float, both as shares of the expected ones'.
struct Deviation {
    double mean = 0;     // root mean square
    double largest = 0;  // difference, of the largest logit
};

Deviation deviation(const std::vector<float>& actual, const std::vector<float>& expected) {
    double squares = 0;
    double difference = 0;
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
        squares += double{expected[i]} * double{expected[i]};
        difference += std::pow(double{actual[i]} - double{expected[i]}, 2);
    }
    return {.mean = std::sqrt(difference / squares), .largest = relative_error(actual, expected)};
}

void round_row(std::span<float> row) {
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::abs(value));
    if (largest == 0) return;
    const float step = largest / 127.0F;
    for (float& value : row) value = std::nearbyint(value / step) * step;
}

// What int8 does to a model, as docs/npu.md derives it ("How exact"): with nothing but the matrices rounded that the
// NPU takes, a scale for each row, and all else in float.
Deviation of_rounded_weights(const models::Model& model, const std::vector<float>& expected) {
    models::Model rounded = model;
    for (const graph::Node& node : model.program.nodes) {
        if (node.op.as<op::Linear>() == nullptr || !npu::obstacle_of(model.program, node).empty()) continue;
        const std::string& name = model.program.value(node.inputs[0]).name;
        const graph::WeightView& view = *model.weights.find(name);
        std::vector<std::byte> bytes(static_cast<size_t>(view.elements()) * sizeof(float));
        const std::span values(reinterpret_cast<float*>(bytes.data()), static_cast<size_t>(view.elements()));
        format::decode_row(view.dtype, view.data.data(), values.data(), view.elements());
        const auto cols = static_cast<size_t>(view.shape[1]);
        for (size_t at = 0; at < values.size(); at += cols) round_row(values.subspan(at, cols));
        rounded.weights.add_owned(name, DType::f32, view.shape, std::move(bytes));
        rounded.program.values[static_cast<size_t>(node.inputs[0])].type.dtype = DType::f32;
    }
    const std::unique_ptr<device::Backend> alone = reference_device();
    return deviation(chunked_logits(*alone, rounded), expected);
}

// Shares of of_rounded_weights(). Of a whole layer: as much for the activations, which are rounded in the same way, and
// at most as much for attention; the square root of three. The largest difference of a few thousand logits is less
// certain than their mean.
constexpr double kAttentionShare = 1.0;
constexpr double kLayersShare = 2.0;
// With experts, which are not rounded, the weights make but one of a layer's two sums worse.
const double kAttentionShareOfExperts = std::sqrt(2.0);
constexpr double kLargest = 2.0;

// Rounding the weights is off by 1 % of a product's size, of which two are summed in each layer; in models this small
// attention may double it. More where scores are sharp: Gemma 4 does not divide them by the root of head_dim, here at
// most 64, and the YaRN of gpt-oss multiplies them by (0.1 ln 32 + 1)^2.
double most_of_weights(const std::string& name, const models::Model& model) {
    const double sharpness = name.starts_with("gemma4") ? 8 : name == "gpt-oss" ? 1.8 : 1;
    return 2 * 0.01 * sharpness * std::sqrt(2.0 * static_cast<double>(model.program.caches.size()));
}

void expect_rounded_to_int8(const Deviation& found, const Deviation& weights, double share) {
    EXPECT_LT(found.mean, share * weights.mean);
    EXPECT_LT(found.largest, share * kLargest * weights.largest);
    EXPECT_GT(found.mean, 0) << "nothing ran on the NPU";
}

// A node of that op; with `obstacle` one that has none.
template <typename T>
bool has(const graph::Program& program, const plan::Obstacle& obstacle = {}) {
    return std::ranges::any_of(program.nodes, [&](const graph::Node& node) {
        return node.op.as<T>() != nullptr && (!obstacle || obstacle(program, node).empty());
    });
}

// What a layer has that the NPU leaves to the main device.
const auto kLeft = testing::AnyOf(testing::HasSubstr("x expert_"), testing::HasSubstr("x route"),
                                  testing::HasSubstr("it would choose other experts"),
                                  testing::HasSubstr("the kernel knows no sinks"), testing::HasSubstr("x embed"));

TEST_P(Hybrid, TheNpuRoundsToInt8AndNoWorse) {
    const auto smooth = open_smooth(GetParam());
    const models::Model& model = smooth->model;
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    const Deviation weights = of_rounded_weights(model, expected);
    RecordProperty("weights", fmt::format("{:.4f}, largest {:.4f}", weights.mean, weights.largest));
    EXPECT_LT(weights.mean, most_of_weights(GetParam(), model));
    EXPECT_GT(weights.mean, 0);
    const plan::Placement layers{.policy = plan::Policy::npu_prefill, .npu_layers = 99};
    EXPECT_THAT(plan::describe_left(model.program, layers, npu::obstacle_of), testing::Each(kLeft));
    const auto found_with = [&](plan::Policy policy) {
        const std::unique_ptr<device::Backend> both = plan::make_hybrid(
            reference_device(), emulated_npu(), {.policy = policy, .npu_layers = 99, .micro_rows = 16, .strict = true});
        const Deviation found = deviation(chunked_logits(*both, model), expected);
        RecordProperty(std::string(name(policy)), fmt::format("{:.4f}, largest {:.4f}", found.mean, found.largest));
        return found;
    };
    const double share = has<op::ExpertLinear>(model.program) ? kAttentionShareOfExperts : kAttentionShare;
    if (has<op::Attention>(model.program, npu::obstacle_of))
        expect_rounded_to_int8(found_with(plan::Policy::npu_attention), weights, share);
    else
        EXPECT_EQ(found_with(plan::Policy::npu_attention).largest, 0);
    expect_rounded_to_int8(found_with(plan::Policy::npu_prefill), weights, kLayersShare);
    EXPECT_EQ(found_with(plan::Policy::main_only).largest, 0);
}

// Of single tokens too: all but attention, the experts and what is no layer's.
TEST(HybridAlone, TheNpuHasEveryStep) {
    for (const char* family : {"gemma3", "qwen2-moe"}) {
        const auto smooth = open_smooth(family);
        const models::Model& model = smooth->model;
        const auto logits_of = [&](device::Backend& device) {
            const std::vector<int32_t> tokens = hybrid_tokens(static_cast<int>(model.vocab));
            auto sequence = Sequence::start(device, model, kHybridTokens);
            std::vector<float> logits;
            for (const auto& step :
                 {std::span(tokens).first(17), std::span(tokens).subspan(17, 1), std::span(tokens).subspan(18, 1)}) {
                const auto rows = sequence->feed(step);
                EXPECT_TRUE(rows) << rows.error().message;
                logits.insert(logits.end(), rows->begin(), rows->end());
            }
            return logits;
        };
        const std::unique_ptr<device::Backend> alone = reference_device();
        const std::vector<float> expected = logits_of(*alone);
        auto timeline = std::make_shared<plan::Timeline>();
        const std::unique_ptr<device::Backend> both = plan::make_hybrid(
            reference_device(), emulated_npu(),
            {.policy = plan::Policy::npu_alone, .micro_rows = 16, .strict = true, .timeline = timeline});
        const std::vector<float> found = logits_of(*both);
        const Deviation weights = of_rounded_weights(model, chunked_logits(*alone, model));
        expect_rounded_to_int8(deviation(found, expected), weights, kLayersShare);
        const std::vector<plan::Timeline::Span> spans = timeline->spans();
        const auto of_one_row = std::ranges::count_if(spans, [](const plan::Timeline::Span& span) {
            return span.device == "npu emulator" && span.what.find("(1 rows)") != std::string::npos;
        });
        EXPECT_GE(of_one_row, 2 * std::ssize(model.program.caches)) << family;
    }
}

// With a main device that is slow or fast by its rates.
TEST_P(Hybrid, AutoTakesTheNpuWhereItPaysAndOnlyThere) {
    const auto smooth = open_smooth(GetParam());
    const models::Model& model = smooth->model;
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    const std::string names = alone->describe().name + " + npu emulator";
    const auto found_with = [&](const device::Rates& rates) {
        const std::unique_ptr<device::Backend> both = plan::make_hybrid(
            reference_device(), emulated_npu(),
            {.policy = plan::Policy::automatic, .micro_rows = 16, .strict = true, .main_rates = [=] { return rates; }});
        const Deviation found = deviation(chunked_logits(*both, model), expected);
        EXPECT_EQ(both->describe().name, found.largest == 0 ? alone->describe().name : names) << "who ran";
        return found;
    };
    EXPECT_EQ(found_with({.read_bytes_per_s = 1e12, .matrix_flops_per_s = 1e15}).largest, 0)
        << "the main device is faster";
    expect_rounded_to_int8(found_with({.read_bytes_per_s = 1e12, .matrix_flops_per_s = 1e6}),
                           of_rounded_weights(model, expected), kLayersShare);
}

#ifdef TANDEM_VULKAN
// The GPU and the NPU see one cache and one copy of what they hand over: memory of the host that Vulkan imports.
TEST(HybridGpu, SharesItsCacheAndValuesWithTheNpu) {
    for (const char* family : {"gemma3", "qwen2-moe"}) {
        const auto smooth = open_smooth(family);
        const models::Model& model = smooth->model;
        const std::unique_ptr<device::Backend> alone = reference_device();
        const std::vector<float> expected = chunked_logits(*alone, model);
        const Deviation weights = of_rounded_weights(model, expected);
        for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
            const std::unique_ptr<device::Backend> both =
                plan::make_hybrid(vulkan::make_backend({.validation = true}).value(), emulated_npu(),
                                  {.policy = policy, .npu_layers = 2, .micro_rows = 16, .strict = true});
            SCOPED_TRACE(fmt::format("{}, {}", family, name(policy)));
            expect_rounded_to_int8(deviation(chunked_logits(*both, model, DType::q8_0), expected), weights,
                                   kLayersShare);
        }
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Families, Hybrid, testing::ValuesIn(kGoldenModels), [](const auto& each) {
    std::string name = each.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace tandem::golden
