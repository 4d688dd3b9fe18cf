// The fused stages of the Vulkan backend, over a golden model of every family in f16 and in Q8_0: logits as the CPU's
// reference has them for the same weights, within what f16 and int8 activations round.
#ifdef TANDEM_VULKAN
#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "golden/model_files.h"
#include "golden/relative_error.h"
#include "golden/run_program.h"
#include "models/export.h"
#include "models/synthetic.h"
#include "vulkan/backend.h"
#include "vulkan/shared_gpu.h"

namespace tandem::golden {
namespace {

constexpr int kTokens = 40;

// f16 has 11 bits: a product of rounded activations is off by 2^-12 of its terms' size, and so is an f16 cache. A few
// layers add up to no more than sixteen times that.
constexpr double kF16Tolerance = 16 * 0x1p-12;
// int8 rounds to half of 1/127 of the largest of 32, about 1/9 of that as a standard deviation; errors of many terms
// mostly cancel, though less in models as narrow as these. Where scores are sharp (Gemma 4) they do not: there the
// bound is twice what the CPU's products, which round activations in the same way, make of the same model.
constexpr double kInt8Tolerance = 0.06;

device::Backend& vulkan_device() {
    static const std::unique_ptr<device::Backend> opened = vulkan::make_backend({.validation = true}).value();
    return *opened;
}

device::Backend& reference() {
    static const std::unique_ptr<device::Backend> opened = cpu::make_backend({.threads = 1, .reference = true}).value();
    return *opened;
}

device::Backend& fast_cpu() {
    static const std::unique_ptr<device::Backend> opened = cpu::make_backend({.threads = 1}).value();
    return *opened;
}

std::vector<int32_t> some_tokens(int vocab) {
    std::vector<int32_t> tokens;
    tokens.reserve(kTokens);
    for (int i = 0; i < kTokens; ++i) tokens.push_back((i * 37 + 11) % vocab);
    return tokens;
}

std::vector<float> logits_of(device::Backend& device, const models::Model& model, DType kv_dtype, size_t chunk) {
    const std::vector<int32_t> tokens = some_tokens(static_cast<int>(model.vocab));
    auto sequence = Sequence::start(device, model, kTokens, kv_dtype);
    EXPECT_TRUE(sequence) << sequence.error().message;
    std::vector<float> logits;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
        auto rows = sequence->feed(std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at)));
        EXPECT_TRUE(rows) << rows.error().message;
        logits.insert(logits.end(), rows->begin(), rows->end());
    }
    return logits;
}

// A golden model, rewritten with weights of another type.
struct Rewritten {
    TempDir dir;
    std::optional<format::Checkpoint> checkpoint;
    models::Model model;
};

std::unique_ptr<Rewritten> rewrite(const std::string& name, DType type) {
    ThreadPool threads(2);
    auto rewritten = std::make_unique<Rewritten>();
    const std::filesystem::path path = rewritten->dir.path() / "model.gguf";
    const auto original = format::Checkpoint::open(golden_dir(name)).value();
    EXPECT_TRUE(models::export_gguf(original, path, {.type = type, .threads = &threads}));
    rewritten->checkpoint.emplace(format::Checkpoint::open(path).value());
    rewritten->model = models::load(*rewritten->checkpoint).value();
    return rewritten;
}

// Gemma 4 does not divide its scores by the root of head_dim, here at most 64: what q and k are rounded by counts eight
// times as much.
double sharpness(const std::string& name) {
    return name.starts_with("gemma4") ? 8 : 1;
}

class FusedModel : public testing::TestWithParam<std::string> {
  protected:
    static double f16_tolerance() { return sharpness(GetParam()) * kF16Tolerance; }

    void expect_agreement(DType type, size_t chunk, double tolerance) {
        const auto rewritten = rewrite(GetParam(), type);
        const auto expected = logits_of(reference(), rewritten->model, DType::f32, kTokens);
        if (type == DType::q8_0 && chunk == 1 && sharpness(GetParam()) > 1) {
            const auto rounded = logits_of(fast_cpu(), rewritten->model, DType::f16, chunk);
            tolerance = std::max(tolerance, 2 * relative_error(rounded, expected));
            RecordProperty("tolerance", std::to_string(tolerance));
        }
        const auto actual = logits_of(vulkan_device(), rewritten->model, DType::f16, chunk);
        const double error = relative_error(actual, expected);
        RecordProperty("relative_error", std::to_string(error));
        EXPECT_LT(error, tolerance) << name(type) << " in chunks of " << chunk;
    }
};

TEST_P(FusedModel, InF16) {
    expect_agreement(DType::f16, kTokens, f16_tolerance());
    expect_agreement(DType::f16, 1, f16_tolerance());
}

TEST_P(FusedModel, InQ8_0) {
    expect_agreement(DType::q8_0, kTokens, f16_tolerance());
    expect_agreement(DType::q8_0, 1, kInt8Tolerance);
}

// As files have it in which the weights of v are worth more bits than those of q and k.
TEST(FusedModels, TakeValuesOfAnotherType) {
    const TempDir dir;
    HfModel mixed = read_hf(golden_dir("qwen3"));
    std::vector<std::string> matrices;
    for (const auto& [name, tensor] : mixed.tensors) {
        if (tensor.shape.size() == 2) matrices.push_back(name);
    }
    for (const std::string& name : matrices) {
        mixed.convert(name, name.find("v_proj") == std::string::npos ? DType::f16 : DType::bf16);
    }
    write_hf(mixed, dir.path());
    const auto checkpoint = format::Checkpoint::open(dir.path()).value();
    const models::Model model = models::load(checkpoint).value();
    const auto expected = logits_of(reference(), model, DType::f32, kTokens);
    for (size_t chunk : {size_t{kTokens}, size_t{1}}) {
        EXPECT_LT(relative_error(logits_of(vulkan_device(), model, DType::f16, chunk), expected), kF16Tolerance);
    }
}

// Matrices of experts in the types that files have them in, in tiles (rows of 256) and not (rows of 96).
TEST(FusedModels, ExpertsOfManyTypes) {
    for (const DType type : {DType::q4_0, DType::q4_k, DType::q6_k, DType::mxfp4, DType::bf16}) {
        for (const int width : {256, 96}) {
            if (width % info(type).block != 0) continue;
            const TempDir dir;
            ASSERT_TRUE(models::write_random_gguf(dir.path() / "model.gguf", {.family = "gpt-oss",
                                                                              .dim = 256,
                                                                              .layers = 2,
                                                                              .heads = 4,
                                                                              .kv_heads = 2,
                                                                              .head_dim = 64,
                                                                              .ffn_dim = 256,
                                                                              .experts = 8,
                                                                              .used_experts = 3,
                                                                              .expert_ffn_dim = width,
                                                                              .type = type}));
            const auto checkpoint = format::Checkpoint::open(dir.path() / "model.gguf").value();
            const models::Model model = models::load(checkpoint).value();
            const auto expected = logits_of(reference(), model, DType::f32, kTokens);
            for (const size_t chunk : {size_t{kTokens}, size_t{3}, size_t{1}}) {
                const double error = relative_error(logits_of(vulkan_device(), model, DType::f16, chunk), expected);
                EXPECT_LT(error, chunk == 1 && is_quantized(type) ? kInt8Tolerance : kF16Tolerance)
                    << name(type) << " " << width << " in chunks of " << chunk;
            }
        }
    }
}

// The reference rounds the same keys and values; those that differ by what f16 rounds may be a step of int8 apart.
TEST(FusedModels, WithACacheOfInt8) {
    for (const char* name : {"gemma3", "qwen3"}) {
        const auto rewritten = rewrite(name, DType::f16);
        const auto expected = logits_of(reference(), rewritten->model, DType::q8_0, kTokens);
        for (size_t chunk : {size_t{kTokens}, size_t{1}}) {
            const double error =
                relative_error(logits_of(vulkan_device(), rewritten->model, DType::q8_0, chunk), expected);
            EXPECT_LT(error, kInt8Tolerance) << name << " in chunks of " << chunk;
        }
    }
}

// The same arithmetic in the same order, with counters in place of barriers.
TEST(FusedModels, ADecodeInAChainIsTheSame) {
    const std::shared_ptr<vulkan::SharedGpu> gpu = vulkan::open_gpu({.validation = true}).value();
    const std::unique_ptr<device::Backend> chained = vulkan::make_backend(gpu).value();
    gpu->tuning().chained_rows = 8;
    const auto rewritten = rewrite("gemma3", DType::q8_0);
    EXPECT_EQ(logits_of(*chained, rewritten->model, DType::f16, 1),
              logits_of(vulkan_device(), rewritten->model, DType::f16, 1));
}

TEST_P(FusedModel, DrawsSeveralTokensAtOnceAsOneByOne) {
    const auto rewritten = rewrite(GetParam(), DType::q8_0);
    const std::vector<int32_t> prompt = {3, 5, 7, 11};
    auto apart = Sequence::start(vulkan_device(), rewritten->model, kTokens, DType::f16).value();
    auto together = Sequence::start(vulkan_device(), rewritten->model, kTokens, DType::f16).value();
    ASSERT_TRUE(apart.feed(prompt) && together.feed(prompt));
    std::vector<int32_t> expected;
    expected.reserve(9);
    for (int i = 0; i < 9; ++i) expected.push_back(apart.draw(apart.next(), 1).value().front());
    std::vector<int32_t> drawn = together.draw(together.next(), 5).value();
    ASSERT_EQ(drawn.size(), 5U);
    const std::vector<int32_t> rest = together.draw(drawn.back(), 4).value();
    drawn.insert(drawn.end(), rest.begin(), rest.end());
    EXPECT_EQ(drawn, expected);
    EXPECT_FALSE(together.draw(1, together.max_steps() + 1)) << "more steps than the device takes";
}

INSTANTIATE_TEST_SUITE_P(All, FusedModel,
                         testing::Values("gemma2", "gemma3", "gemma3-softcap", "gemma4", "gemma4-e", "granite", "llama",
                                         "ministral3", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3"),
                         [](const testing::TestParamInfo<std::string>& test) {
                             std::string name = test.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

}  // namespace
}  // namespace tandem::golden
#endif
