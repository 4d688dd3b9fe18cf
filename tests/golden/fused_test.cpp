// The fused stages of the Vulkan backend, over a golden model of every family in f16 and in Q8_0: logits as the CPU's
// reference has them for the same weights, within what f16 and int8 activations round.
#ifdef TANDEM_VULKAN
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

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

// f16 has 11 bits: rounded activations and an f16 cache are off by up to 2^-12 of their size, and a few layers add up
// to no more than sixteen times that. A model whose scores are sharp makes more of it: it may do so as far as its own
// numbers say, by what it makes of weights that are off by as much (sensitivity()). Where there it is weights alone,
// here activations, keys, values and the weights of attention are: four times.
constexpr double kF16Rounding = 0x1p-12;
constexpr double kF16Tolerance = 16 * kF16Rounding;
constexpr double kF16Margin = 4;
// int8 rounds to half of 1/127 of the largest of 32, about 1/9 of that as a standard deviation; errors of many terms
// mostly cancel, though less in models as narrow as these. Where they do not, the bound is twice what the CPU's
// products, which round activations in the same way, make of the same model.
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

// A golden model. Of experts a row goes to all, so that rounding cannot choose others: which ones are chosen is no
// matter of how much.
HfModel model_of(const std::string& name) {
    HfModel model = read_hf(golden_dir(name));
    for (const char* count : {"num_experts", "num_local_experts", "n_routed_experts"}) {
        if (!model.config.contains(count)) continue;
        model.config[model.config.contains("top_k_experts") ? "top_k_experts" : "num_experts_per_tok"] =
            model.config[count];
        if (model.config.contains("n_group")) model.config["topk_group"] = model.config["n_group"];
    }
    return model;
}

std::vector<float> reference_logits(const HfModel& model) {
    const TempDir dir;
    write_hf(model, dir.path());
    const auto checkpoint = format::Checkpoint::open(dir.path()).value();
    return logits_of(reference(), models::load(checkpoint).value(), DType::f32, kTokens);
}

// By how much logits move when every weight of a matrix is off by up to kF16Rounding of its size.
double sensitivity(const std::string& name) {
    static std::map<std::string, double> known;
    if (const auto found = known.find(name); found != known.end()) return found->second;
    HfModel model = model_of(name);
    const auto expected = reference_logits(model);
    std::mt19937 random(1);
    for (auto& [tensor_name, tensor] : model.tensors) {
        model.convert(tensor_name, DType::f32);
        if (tensor.shape.size() < 2) continue;
        for (size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
            float value = 0;
            std::memcpy(&value, &tensor.bytes[at], sizeof(value));
            value *= 1 + static_cast<float>(kF16Rounding) * (static_cast<float>(random()) * 0x1p-31F - 1);
            std::memcpy(&tensor.bytes[at], &value, sizeof(value));
        }
    }
    return known[name] = relative_error(reference_logits(model), expected);
}

std::unique_ptr<Rewritten> rewrite(const std::string& name, DType type) {
    ThreadPool threads(2);
    auto rewritten = std::make_unique<Rewritten>();
    const std::filesystem::path path = rewritten->dir.path() / "model.gguf";
    write_hf(model_of(name), rewritten->dir.path() / "original");
    const auto original = format::Checkpoint::open(rewritten->dir.path() / "original").value();
    EXPECT_TRUE(models::export_gguf(original, path, {.type = type, .threads = &threads}));
    rewritten->checkpoint.emplace(format::Checkpoint::open(path).value());
    rewritten->model = models::load(*rewritten->checkpoint).value();
    return rewritten;
}

class FusedModel : public testing::TestWithParam<std::string> {
  protected:
    static void expect_agreement(DType type, size_t chunk) {
        const auto rewritten = rewrite(GetParam(), type);
        const auto expected = logits_of(reference(), rewritten->model, DType::f32, kTokens);
        const auto actual = logits_of(vulkan_device(), rewritten->model, DType::f16, chunk);
        const double error = relative_error(actual, expected);
        const bool is_int8 = is_quantized(type) && chunk == 1;
        double bound = is_int8 ? kInt8Tolerance : kF16Tolerance;
        if (!(error < bound) && is_int8) {
            bound = 2 * relative_error(logits_of(fast_cpu(), rewritten->model, DType::f16, chunk), expected);
        } else if (!(error < bound)) {
            bound = kF16Margin * sensitivity(GetParam());
        }
        RecordProperty(fmt::format("error_{}_{}", name(type), chunk), fmt::format("{:.5f} of {:.5f}", error, bound));
        EXPECT_LT(error, bound) << name(type) << " in chunks of " << chunk;
    }
};

TEST_P(FusedModel, InF16) {
    expect_agreement(DType::f16, kTokens);
    expect_agreement(DType::f16, 1);
}

TEST_P(FusedModel, InQ8_0) {
    expect_agreement(DType::q8_0, kTokens);
    expect_agreement(DType::q8_0, 1);
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

class FusedSteps : public testing::TestWithParam<std::string> {};

TEST_P(FusedSteps, DrawSeveralTokensAtOnceAsOneByOne) {
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

std::string test_name_of(const testing::TestParamInfo<std::string>& test) {
    std::string name = test.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(All, FusedModel,
                         testing::Values("gemma2", "gemma3", "gemma3-softcap", "gemma4", "gemma4-e", "gemma4-moe",
                                         "gpt-oss", "granite", "llama", "ministral3", "mistral", "mixtral", "olmo2",
                                         "phi3", "qwen2", "qwen3", "smollm3"),
                         test_name_of);
// A step that follows from the drawn token alone: windows, an embedding for each layer, a scale by position, experts.
INSTANTIATE_TEST_SUITE_P(All, FusedSteps, testing::Values("gemma3", "gemma4-e", "ministral3", "gpt-oss"), test_name_of);

}  // namespace
}  // namespace tandem::golden
#endif
