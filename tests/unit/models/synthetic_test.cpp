#include "models/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "golden/model_files.h"
#include "models/model.h"

namespace tandem::models {
namespace {

using format::Checkpoint;

TEST(RandomGguf, IsTheSameInMemoryAsInAFile) {
    const SyntheticSpec spec{.dim = 256, .vocab = 20'000, .window = 8, .type = DType::q4_0, .embedding = DType::q6_k};
    golden::TempDir dir;
    ASSERT_TRUE(write_random_gguf(dir.path() / "a.gguf", spec));
    const Checkpoint file = Checkpoint::open(dir.path() / "a.gguf").value();
    ThreadPool threads(3);
    uint64_t reported = 0;
    const MemoryFile made = make_random_gguf(spec, threads, [&](uint64_t done, uint64_t) { reported = done; }).value();
    EXPECT_EQ(reported, Checkpoint::from_gguf(made.bytes(), "memory").value().tensor_bytes());
    EXPECT_EQ(made.size_bytes, random_gguf_bytes(spec).value());
    const Checkpoint memory = Checkpoint::from_gguf(made.bytes(), "memory").value();
    ASSERT_EQ(memory.tensors().size(), file.tensors().size());
    for (const format::TensorRecord& tensor : file.tensors()) {
        const format::TensorRecord* const other = memory.find(tensor.name);
        ASSERT_NE(other, nullptr) << tensor.name;
        EXPECT_EQ(other->dtype, tensor.dtype);
        EXPECT_TRUE(std::ranges::equal(other->data, tensor.data)) << tensor.name;
    }
    EXPECT_EQ(memory.find("token_embd.weight")->dtype, DType::q6_k);
    EXPECT_EQ(memory.find("blk.0.ffn_up.weight")->dtype, DType::q4_0);
}

TEST(RandomGguf, HasNamedShapesThatAreWholeBlocks) {
    for (const NamedShape& shape : named_shapes()) {
        SyntheticSpec small = shape.spec;  // the same rows, fewer of them
        small.layers = small.dense_layers + 1;
        small.vocab = 300;
        small.experts = std::min(small.experts, small.used_experts);
        const MemoryFile made = make_empty_gguf(small).value();
        const Checkpoint checkpoint = Checkpoint::from_gguf(made.bytes(), "random").value();
        const auto model = load(checkpoint);
        ASSERT_TRUE(model) << shape.name << ": " << model.error().message;
        EXPECT_EQ(model->dim, shape.spec.dim);
        EXPECT_EQ(model->head_dim, shape.spec.head_dim);
    }
    // Larger than the memory of this machine most likely.
    const auto large = std::ranges::find(named_shapes(), "glm-4.5-air", &NamedShape::name);
    EXPECT_GT(make_empty_gguf(large->spec).value().size_bytes, 60'000'000'000U);
    const auto bytes = [](std::string_view name) {
        const auto shape = std::ranges::find(named_shapes(), name, &NamedShape::name);
        return static_cast<double>(random_gguf_bytes(shape->spec).value());
    };
    EXPECT_NEAR(bytes("gemma3-27b"), 15.6e9, 0.2e9);
    EXPECT_NEAR(bytes("qwen3-30b-a3b"), 17.3e9, 0.2e9);
    EXPECT_NEAR(bytes("gpt-oss-20b"), 12.1e9, 0.2e9);
    EXPECT_NEAR(bytes("gemma4-26b-a4b"), 16.8e9, 0.2e9);
    EXPECT_NEAR(bytes("gemma4-31b"), 18.7e9, 0.2e9);
    // As published, without the text of the tokenizer.
    EXPECT_NEAR(bytes("llama3.1-8b"), 4.92e9, 0.05e9);
    EXPECT_NEAR(bytes("llama3.3-70b"), 42.5e9, 0.2e9);
    EXPECT_NEAR(bytes("gpt-oss-120b"), 63.4e9, 0.5e9);
    EXPECT_NEAR(bytes("llama3.2-1b"), 0.81e9, 0.02e9);
    EXPECT_NEAR(bytes("qwen3-14b"), 9.0e9, 0.1e9);
    EXPECT_NEAR(bytes("qwen2.5-coder-7b"), 4.68e9, 0.05e9);
}

TEST(RandomGguf, RefusesRowsThatAreNoWholeBlocks) {
    ThreadPool threads(1);
    EXPECT_FALSE(make_random_gguf({.type = DType::q4_k}, threads));
    EXPECT_FALSE(make_random_gguf({.type = DType::f32, .embedding = DType::q6_k}, threads));
}

TEST(RandomGguf, TakesTheTypesOfAMix) {
    ThreadPool threads(2);
    const SyntheticSpec spec{.family = "llama", .dim = 256, .layers = 8, .ffn_dim = 288, .mix = find_mix("q4_k_m")};
    const MemoryFile made = make_random_gguf(spec, threads).value();
    const Checkpoint checkpoint = Checkpoint::from_gguf(made.bytes(), "random").value();
    EXPECT_EQ(checkpoint.gguf()->get_int("general.file_type"), 15);
    EXPECT_EQ(checkpoint.find("token_embd.weight")->dtype, DType::q6_k);  // it makes the logits too
    EXPECT_EQ(checkpoint.find("blk.0.attn_v.weight")->dtype, DType::q6_k);
    EXPECT_EQ(checkpoint.find("blk.1.attn_v.weight")->dtype, DType::q4_k);
    EXPECT_EQ(checkpoint.find("blk.1.ffn_down.weight")->dtype, DType::q5_0);  // rows of 288
    ASSERT_TRUE(load(checkpoint));
}

}  // namespace
}  // namespace tandem::models
