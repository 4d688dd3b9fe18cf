#include "models/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "format/quant.h"
#include "golden/model_files.h"
#include "models/model.h"
#include "models/synthetic.h"

namespace tandem::models {
namespace {

using format::Checkpoint;
using testing::HasSubstr;

Checkpoint open(const std::filesystem::path& path) {
    auto checkpoint = Checkpoint::open(path);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return std::move(*checkpoint);
}

Checkpoint exported(const Checkpoint& from, const std::filesystem::path& path, DType type) {
    const Status done = export_gguf(from, path, {.type = type});
    EXPECT_TRUE(done) << done.error().message;
    return open(path);
}

std::vector<float> values(const format::TensorRecord& tensor) {
    std::vector<float> numbers(static_cast<size_t>(tensor.elements()));
    format::decode_row(tensor.dtype, tensor.data.data(), numbers.data(), tensor.elements());
    return numbers;
}

TEST(StoredType, IsTheOneAskedForWhereRowsAreWholeBlocks) {
    EXPECT_EQ(stored_type(DType::q4_0, 64, false), DType::q4_0);
    EXPECT_EQ(stored_type(DType::q4_0, 33, false), DType::f16);
    EXPECT_EQ(stored_type(DType::q4_k, 256, false), DType::q4_k);
    EXPECT_EQ(stored_type(DType::q4_k, 96, false), DType::q8_0);
    EXPECT_EQ(stored_type(DType::q4_k, 97, false), DType::f16);
    EXPECT_EQ(stored_type(DType::f32, 97, false), DType::f32);
    EXPECT_EQ(stored_type(DType::q4_k, 256, true), DType::q6_k);
    EXPECT_EQ(stored_type(DType::q4_0, 256, true), DType::q4_0);
}

TEST(Export, WritesTheKeysOfTheFamily) {
    const golden::TempDir dir;
    const Checkpoint file =
        exported(open(golden::golden_dir("gemma3-linear-rope")), dir.path() / "m.gguf", DType::q8_0);
    const format::GgufFile& gguf = *file.gguf();
    EXPECT_EQ(gguf.get_string("general.architecture"), "gemma3");
    EXPECT_EQ(gguf.get_string("general.name"), "gemma3-linear-rope");
    EXPECT_EQ(gguf.get_int("general.file_type"), 7);
    EXPECT_EQ(gguf.get_int("general.quantization_version"), 2);
    EXPECT_EQ(gguf.get_int("gemma3.context_length"), 512);
    EXPECT_EQ(gguf.get_int("gemma3.embedding_length"), 64);
    EXPECT_EQ(gguf.get_int("gemma3.block_count"), 6);
    EXPECT_EQ(gguf.get_int("gemma3.feed_forward_length"), 160);
    EXPECT_EQ(gguf.get_int("gemma3.attention.head_count"), 4);
    EXPECT_EQ(gguf.get_int("gemma3.attention.head_count_kv"), 1);
    EXPECT_EQ(gguf.get_int("gemma3.attention.key_length"), 16);
    EXPECT_EQ(gguf.get_int("gemma3.attention.value_length"), 16);
    EXPECT_EQ(gguf.get_int("gemma3.attention.sliding_window"), 16);
    EXPECT_EQ(gguf.find("gemma3.attention.sliding_window_pattern"), nullptr);  // six is usual
    EXPECT_EQ(gguf.get_float("gemma3.rope.freq_base"), 1e6);
    EXPECT_EQ(gguf.get_string("gemma3.rope.scaling.type"), "linear");
    EXPECT_EQ(gguf.get_float("gemma3.rope.scaling.factor"), 8);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->dtype, DType::f32);
    EXPECT_EQ(file.find("blk.0.ffn_down.weight")->dtype, DType::q8_0);
    EXPECT_EQ(file.find("output.weight"), nullptr);  // tied
}

TEST(Export, AddsOneToTheNormsOfGemma) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("gemma3"));
    const Checkpoint file = exported(original, dir.path() / "m.gguf", DType::f32);
    const auto before = values(*original.find("model.norm.weight"));
    const auto after = values(*file.find("output_norm.weight"));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_FLOAT_EQ(after[i], before[i] + 1);
}

TEST(Export, PermutesTheQueriesOfLlama) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    const Checkpoint file = exported(original, dir.path() / "m.gguf", DType::f32);
    const auto before = values(*original.find("model.layers.0.self_attn.q_proj.weight"));
    const auto after = values(*file.find("blk.0.attn_q.weight"));
    const size_t cols = 64;
    const auto row_of = [&](const std::vector<float>& matrix, size_t row) {
        return std::vector(matrix.begin() + static_cast<std::ptrdiff_t>(row * cols),
                           matrix.begin() + static_cast<std::ptrdiff_t>((row + 1) * cols));
    };
    EXPECT_EQ(row_of(after, 0), row_of(before, 0));
    EXPECT_EQ(row_of(after, 1), row_of(before, 8));  // half a head further
    EXPECT_EQ(row_of(after, 2), row_of(before, 1));
    EXPECT_EQ(row_of(after, 16 + 15), row_of(before, 16 + 15));
    EXPECT_EQ(values(*file.find("blk.0.attn_v.weight")),
              values(*original.find("model.layers.0.self_attn.v_proj.weight")));
}

TEST(Export, WritesLlama3RopeAsDivisors) {
    const golden::TempDir dir;
    const Checkpoint file = exported(open(golden::golden_dir("llama3-rope")), dir.path() / "m.gguf", DType::f16);
    ASSERT_NE(file.find("rope_freqs.weight"), nullptr);
    const auto divisors = values(*file.find("rope_freqs.weight"));
    EXPECT_EQ(divisors.size(), 8U);
    EXPECT_FLOAT_EQ(divisors.front(), 1.0F);
    EXPECT_FLOAT_EQ(divisors.back(), 8.0F);
    EXPECT_EQ(file.gguf()->find("llama.rope.scaling.type"), nullptr);
}

TEST(Export, OfEveryTypeLoads) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("qwen3"));
    for (const DType type : kAllDTypes) {
        if (type == DType::i32) continue;
        const Checkpoint file = exported(original, dir.path() / "m.gguf", type);
        const auto model = load(file);
        ASSERT_TRUE(model) << name(type) << ": " << model.error().message;
        EXPECT_EQ(model->weights.find("blk.1.ffn_up.weight")->dtype, stored_type(type, 64, false));
    }
    EXPECT_FALSE(export_gguf(original, dir.path() / "m.gguf", {.type = DType::i32}));
}

TEST(Export, FromGgufKeepsTheMetadataAndTheNorms) {
    const golden::TempDir dir;
    ASSERT_TRUE(write_random_gguf(dir.path() / "a.gguf", {.family = "gemma3", .window = 9, .type = DType::f16}));
    const Checkpoint before = open(dir.path() / "a.gguf");
    const Checkpoint after = exported(before, dir.path() / "b.gguf", DType::q8_0);
    for (const format::GgufEntry& entry : before.gguf()->metadata()) {
        const format::GgufValue* value = after.gguf()->find(entry.key);
        ASSERT_NE(value, nullptr) << entry.key;
        if (entry.key == "general.file_type") continue;
        EXPECT_TRUE(
            std::equal(value->bytes.begin(), value->bytes.end(), entry.value.bytes.begin(), entry.value.bytes.end()))
            << entry.key;
    }
    EXPECT_EQ(after.gguf()->get_int("general.file_type"), 7);
    EXPECT_EQ(values(*after.find("output_norm.weight")), values(*before.find("output_norm.weight")));
    EXPECT_EQ(after.find("token_embd.weight")->dtype, DType::q8_0);
    ASSERT_TRUE(load(after));
}

TEST(Export, IsTheSameWithManyThreadsAndTellsHowFarItIs) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    ThreadPool threads(3);
    uint64_t last = 0;
    uint64_t of = 1;
    const auto progress = [&](uint64_t done, uint64_t total) {
        EXPECT_GT(done, last);
        last = done;
        of = total;
    };
    ASSERT_TRUE(
        export_gguf(original, dir.path() / "a.gguf", {.type = DType::q4_0, .threads = &threads, .progress = progress}));
    ASSERT_TRUE(export_gguf(original, dir.path() / "b.gguf", {.type = DType::q4_0}));
    EXPECT_EQ(last, of);
    const Checkpoint a = open(dir.path() / "a.gguf");
    const Checkpoint b = open(dir.path() / "b.gguf");
    for (const format::TensorRecord& tensor : a.tensors()) {
        const format::TensorRecord* other = b.find(tensor.name);
        ASSERT_NE(other, nullptr);
        EXPECT_TRUE(std::equal(tensor.data.begin(), tensor.data.end(), other->data.begin(), other->data.end()))
            << tensor.name;
    }
}

TEST(Export, AddsWhatTheCallerKnows) {
    const golden::TempDir dir;
    const Checkpoint original = open(golden::golden_dir("llama"));
    const auto add = [](format::GgufWriter& writer) -> Status {
        writer.set("tokenizer.ggml.model", "llama");
        return Ok{};
    };
    ASSERT_TRUE(export_gguf(original, dir.path() / "m.gguf", {.type = DType::f16, .add_metadata = add}));
    EXPECT_EQ(open(dir.path() / "m.gguf").gguf()->get_string("tokenizer.ggml.model"), "llama");
    const auto refuse = [](format::GgufWriter&) -> Status { return fail("no tokenizer"); };
    const Status refused = export_gguf(original, dir.path() / "n.gguf", {.type = DType::f16, .add_metadata = refuse});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "no tokenizer");
    EXPECT_FALSE(std::filesystem::exists(dir.path() / "n.gguf"));
}

TEST(RandomModel, OfEveryFamilyAndTypeLoads) {
    const golden::TempDir dir;
    for (const std::string family : {"gemma3", "llama", "qwen2", "qwen3"}) {
        for (const DType type : {DType::f32, DType::q4_0, DType::q8_0}) {
            ASSERT_TRUE(write_random_gguf(dir.path() / "m.gguf", {.family = family, .window = 7, .type = type}));
            const Checkpoint file = open(dir.path() / "m.gguf");
            const auto model = load(file);
            ASSERT_TRUE(model) << model.error().message;
            EXPECT_EQ(model->family, family);
            EXPECT_EQ(model->weights.find("blk.0.attn_q.weight")->dtype, type);
        }
    }
    const Status refused = write_random_gguf(dir.path() / "m.gguf", {.type = DType::q4_k});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("no whole number of q4_k blocks"));
}

}  // namespace
}  // namespace tandem::models
