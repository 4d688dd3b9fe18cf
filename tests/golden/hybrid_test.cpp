// Golden models run by two devices together. With two that compute alike, cutting the Program and the batch changes no
// bit; with the NPU's emulator, logits are as far off as int8 rounds.
#include "plan/hybrid.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "golden/model_files.h"
#include "golden/relative_error.h"
#include "golden/run_program.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::golden {
namespace {

constexpr int kHybridTokens = 40;

std::unique_ptr<device::Backend> reference_device() {
    return cpu::make_backend({.threads = 1, .reference = true}).value();
}

std::unique_ptr<device::Backend> emulated_npu(int64_t fails_after = -1) {
    return npu::make_backend(npu::make_emulator_runtime({.fails_after = fails_after}).value(),
                             *npu::find_array("npu1"));
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

TEST_P(Hybrid, TwoEqualDevicesGiveEveryBitThatOneGives) {
    const auto checkpoint = format::Checkpoint::open(golden_dir(GetParam())).value();
    const models::Model model = models::load(checkpoint).value();
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
        auto timeline = std::make_shared<plan::Timeline>();
        const std::unique_ptr<device::Backend> both =
            plan::make_hybrid(reference_device(), reference_device(),
                              {.policy = policy, .npu_layers = 2, .micro_rows = 7, .timeline = timeline});
        EXPECT_EQ(chunked_logits(*both, model), expected) << name(policy);
        EXPECT_GT(timeline->spans().size(), 0U);
    }
}

// int8 with one scale for a row is off by up to 1/254 of the row's largest element; of elements like these, about four
// times their root mean square, that is 1.6 % of a product for either operand, and 20 products follow one another.
constexpr double kNpuTolerance = 0.1;

TEST_P(Hybrid, TheNpuRoundsToInt8AndNoWorse) {
    const auto checkpoint = format::Checkpoint::open(golden_dir(GetParam())).value();
    const models::Model model = models::load(checkpoint).value();
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    EXPECT_EQ(
        plan::describe_left(model.program, {.policy = plan::Policy::npu_prefill, .npu_layers = 99}, npu::obstacle_of),
        std::vector<std::string>())
        << "the NPU runs whole layers";
    for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
        const std::unique_ptr<device::Backend> both = plan::make_hybrid(
            reference_device(), emulated_npu(), {.policy = policy, .npu_layers = 99, .micro_rows = 16, .strict = true});
        const double error = relative_error(chunked_logits(*both, model), expected);
        RecordProperty("relative_error", std::to_string(error));
        EXPECT_LT(error, kNpuTolerance) << name(policy);
        EXPECT_GT(error, 0) << name(policy) << ": nothing ran on the NPU";
    }
}

// With a main device that is slow or fast by its rates.
TEST(HybridAuto, TakesTheNpuWhereItPaysAndOnlyThere) {
    const auto checkpoint = format::Checkpoint::open(golden_dir("qwen2")).value();
    const models::Model model = models::load(checkpoint).value();
    const std::unique_ptr<device::Backend> alone = reference_device();
    const std::vector<float> expected = chunked_logits(*alone, model);
    const auto error_with = [&](const device::Rates& rates) {
        const std::unique_ptr<device::Backend> both = plan::make_hybrid(
            reference_device(), emulated_npu(),
            {.policy = plan::Policy::automatic, .micro_rows = 16, .strict = true, .main_rates = [=] { return rates; }});
        return relative_error(chunked_logits(*both, model), expected);
    };
    EXPECT_EQ(error_with({.read_bytes_per_s = 1e12, .matrix_flops_per_s = 1e15}), 0) << "the main device is faster";
    const double error = error_with({.read_bytes_per_s = 1e12, .matrix_flops_per_s = 1e6});
    EXPECT_GT(error, 0) << "the NPU is faster";
    EXPECT_LT(error, kNpuTolerance);
}

#ifdef TANDEM_VULKAN
// The GPU and the NPU see one cache and one copy of what they hand over: memory of the host that Vulkan imports.
TEST(HybridGpu, SharesItsCacheAndValuesWithTheNpu) {
    for (const char* family : {"gemma3", "qwen3"}) {
        const auto checkpoint = format::Checkpoint::open(golden_dir(family)).value();
        const models::Model model = models::load(checkpoint).value();
        const std::unique_ptr<device::Backend> alone = reference_device();
        const std::vector<float> expected = chunked_logits(*alone, model);
        for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
            const std::unique_ptr<device::Backend> both =
                plan::make_hybrid(vulkan::make_backend({.validation = true}).value(), emulated_npu(),
                                  {.policy = policy, .npu_layers = 2, .micro_rows = 16, .strict = true});
            const double error = relative_error(chunked_logits(*both, model, DType::q8_0), expected);
            EXPECT_LT(error, kNpuTolerance) << family << ", " << name(policy);
        }
    }
}
#endif

INSTANTIATE_TEST_SUITE_P(Families, Hybrid, testing::Values("gemma3", "llama", "mistral", "qwen2", "qwen3"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace tandem::golden
