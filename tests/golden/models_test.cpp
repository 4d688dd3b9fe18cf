// Every golden model, on both CPU backends: logits of all positions and the greedy continuation as an
// independent implementation has them, however the prompt is cut and whichever file the model came from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cpu/backend.h"
#include "format/gguf_writer.h"
#include "format/quant.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif
#include "golden/model_files.h"
#include "golden/relative_error.h"
#include "golden/run_program.h"
#include "models/export.h"
#include "models/model.h"

namespace tandem::golden {
namespace {

constexpr double kTolerance = 2e-4;  // of the largest logit

struct Expected {
    std::vector<int32_t> tokens;
    std::vector<int32_t> greedy_prompt;
    std::vector<int32_t> greedy;
    std::vector<float> logits;  // [tokens, vocab]
};

Expected read_expected(const std::string& name) {
    const auto json = nlohmann::json::parse(std::ifstream(golden_dir(name) / "expected.json"));
    const std::string bytes = read_text_file(golden_dir(name) / "logits.f32").value();
    Expected expected{.tokens = json["tokens"],
                      .greedy_prompt = json["greedy_prompt"],
                      .greedy = json["greedy"],
                      .logits = std::vector<float>(bytes.size() / sizeof(float))};
    std::memcpy(expected.logits.data(), bytes.data(), bytes.size());
    return expected;
}

const std::string kDevices[] = {"fast", "reference",
#ifdef TANDEM_VULKAN
                                "vulkan"
#endif
};

Result<std::unique_ptr<device::Backend>> open_device(const std::string& name) {
#ifdef TANDEM_VULKAN
    if (name == "vulkan") return vulkan::make_backend({.exact = true, .validation = true});
#endif
    return cpu::make_backend({.threads = 2, .reference = name == "reference"});
}

// Each device is opened once: a GPU compiles its kernels then.
device::Backend& backend(const std::string& name) {
    static std::map<std::string, std::unique_ptr<device::Backend>> opened;
    if (!opened[name]) opened[name] = open_device(name).value();
    return *opened[name];
}

// Logits of all tokens, fed `chunk` at a time.
std::vector<float> run(device::Backend& device, const models::Model& model, const std::vector<int32_t>& tokens,
                       size_t chunk) {
    auto sequence = Sequence::start(device, model, static_cast<int>(tokens.size()));
    EXPECT_TRUE(sequence) << sequence.error().message;
    std::vector<float> logits;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
        const auto piece = std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at));
        auto rows = sequence->feed(piece);
        EXPECT_TRUE(rows) << rows.error().message;
        logits.insert(logits.end(), rows->begin(), rows->end());
    }
    return logits;
}

std::vector<int32_t> continue_greedily(device::Backend& device, const models::Model& model,
                                       const std::vector<int32_t>& prompt, size_t count) {
    auto sequence = Sequence::start(device, model, static_cast<int>(prompt.size() + count));
    EXPECT_TRUE(sequence) << sequence.error().message;
    EXPECT_TRUE(sequence->feed(prompt));
    std::vector<int32_t> tokens{sequence->next()};
    while (tokens.size() < count) {
        EXPECT_TRUE(sequence->feed(std::vector<int32_t>{tokens.back()}));
        tokens.push_back(sequence->next());
    }
    return tokens;
}

struct Opened {
    format::Checkpoint checkpoint;
    models::Model model;
};

std::unique_ptr<Opened> open(const std::filesystem::path& path) {
    auto checkpoint = format::Checkpoint::open(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    auto opened = std::make_unique<Opened>(Opened{std::move(*checkpoint), {}});
    auto model = models::load(opened->checkpoint);
    EXPECT_TRUE(model) << model.error().message;
    if (model) opened->model = std::move(*model);
    return opened;
}

std::unique_ptr<Opened> export_and_open(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                                        DType type) {
    ThreadPool threads(2);
    const Status done = models::export_gguf(checkpoint, path, {.type = type, .threads = &threads});
    EXPECT_TRUE(done) << done.error().message;
    return open(path);
}

class GoldenModel : public testing::TestWithParam<std::tuple<std::string, std::string>> {
  protected:
    std::string name() const { return std::get<0>(GetParam()); }
    device::Backend& device() const { return backend(std::get<1>(GetParam())); }
};

TEST_P(GoldenModel, GivesTheExpectedLogitsHoweverThePromptIsCut) {
    const Expected expected = read_expected(name());
    const auto opened = open(golden_dir(name()));
    device::Backend& on = device();
    for (const size_t chunk : {expected.tokens.size(), size_t{1}, size_t{5}, size_t{7}}) {
        const double error = relative_error(run(on, opened->model, expected.tokens, chunk), expected.logits);
        EXPECT_LT(error, kTolerance) << "in chunks of " << chunk;
        if (chunk == expected.tokens.size()) RecordProperty("relative_error", std::to_string(error));
    }
}

TEST_P(GoldenModel, ContinuesGreedilyAsExpected) {
    const Expected expected = read_expected(name());
    const auto opened = open(golden_dir(name()));
    EXPECT_EQ(continue_greedily(device(), opened->model, expected.greedy_prompt, expected.greedy.size()),
              expected.greedy);
}

TEST_P(GoldenModel, GivesTheExpectedLogitsFromItsGgufFile) {
    const Expected expected = read_expected(name());
    const TempDir dir;
    const auto original = open(golden_dir(name()));
    const auto opened = export_and_open(original->checkpoint, dir.path() / "model.gguf", DType::f32);
    EXPECT_EQ(opened->model.parameters, original->model.parameters);
    EXPECT_EQ(opened->model.context_length, original->model.context_length);
    device::Backend& on = device();
    const auto logits = run(on, opened->model, expected.tokens, expected.tokens.size());
    EXPECT_LT(relative_error(logits, expected.logits), kTolerance);
    EXPECT_EQ(continue_greedily(on, opened->model, expected.greedy_prompt, expected.greedy.size()), expected.greedy);
}

// A factor beside matrices that were divided by it, with a bias (which it must leave alone) and without, and beside the
// embedding, changes nothing.
TEST(FactorOfAMatrix, IsMultipliedWith) {
    const TempDir dir;
    const Expected expected = read_expected("qwen2");
    const auto plain = export_and_open(open(golden_dir("qwen2"))->checkpoint, dir.path() / "plain.gguf", DType::f32);
    const float factor = 0.125F;
    format::GgufWriter writer;
    for (const format::GgufEntry& entry : plain->checkpoint.gguf()->metadata()) writer.set(entry.key, entry.value);
    std::deque<std::vector<float>> divided;
    for (const format::TensorRecord& tensor : plain->checkpoint.tensors()) {
        const bool scaled = tensor.name == "blk.0.attn_q.weight" || tensor.name == "blk.1.ffn_down.weight" ||
                            tensor.name == "token_embd.weight";
        std::vector<float>& values = divided.emplace_back(static_cast<size_t>(tensor.elements()));
        format::decode_row(tensor.dtype, tensor.data.data(), values.data(), tensor.elements());
        for (float& value : values) value /= scaled ? factor : 1.0F;
        writer.add(tensor.name, DType::f32, tensor.shape, std::as_bytes(std::span(values)));
        const std::string beside = tensor.name.substr(0, tensor.name.rfind('.')) + ".scale";
        if (scaled) writer.add(beside, DType::f32, {1}, std::as_bytes(std::span(&factor, 1)));
    }
    ASSERT_TRUE(writer.write(dir.path() / "scaled.gguf"));
    const auto scaled = open(dir.path() / "scaled.gguf");
    for (const std::string& device : kDevices) {
        const auto logits = run(backend(device), scaled->model, expected.tokens, 5);
        EXPECT_LT(relative_error(logits, expected.logits), kTolerance) << device;
    }
}

// Those with experts have their weights in f16, which is exact: they are multiples of 1/256.
const std::string kFromTransformers[] = {"gemma2",   "gemma3",      "gemma3-linear-rope",
                                         "gemma4",   "gemma4-e",    "gemma4-moe",
                                         "glm4-moe", "gpt-oss",     "granite",
                                         "llama",    "llama3-rope", "ministral3",
                                         "mistral",  "mixtral",     "olmo2",
                                         "phi3",     "qwen2",       "qwen2-moe",
                                         "qwen3",    "qwen3-moe",   "smollm3"};
// Settings that those do not have; reference.py made these.
const std::string kFromReference[] = {"gemma3-softcap", "llama-bias",   "llama-linear",   "llama-yarn",
                                      "mistral-full",   "qwen2-window", "qwen3-bias-yarn"};

std::string test_name(const testing::TestParamInfo<std::tuple<std::string, std::string>>& test) {
    std::string name = std::get<0>(test.param);
    std::replace(name.begin(), name.end(), '-', '_');
    return name + "_" + std::get<1>(test.param);
}

INSTANTIATE_TEST_SUITE_P(Transformers, GoldenModel,
                         testing::Combine(testing::ValuesIn(kFromTransformers), testing::ValuesIn(kDevices)),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Variations, GoldenModel,
                         testing::Combine(testing::ValuesIn(kFromReference), testing::ValuesIn(kDevices)), test_name);

}  // namespace
}  // namespace tandem::golden
