// Models of any size with random weights, for tests and benchmarks: speed does not depend on what a model has learnt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/threads.h"
#include "models/mix.h"

namespace tandem::models {

struct SyntheticSpec {
    // gemma3, gemma4, llama, qwen2, qwen3; with experts gemma4, qwen3moe, glm4moe, gpt-oss
    std::string family = "gemma3";
    int dim = 64;
    int layers = 2;
    int heads = 4;
    int kv_heads = 2;
    int head_dim = 16;
    int ffn_dim = 160;
    int vocab = 320;
    int context_length = 512;
    int window = 0;                       // 0: none
    float rope_factor = 0.0F;             // of linear rope scaling, of gpt-oss yarn; 0: none
    int experts = 0;                      // of a layer; 0: none
    int used_experts = 0;                 // of a token
    int expert_ffn_dim = 0;               //
    int dense_layers = 0;                 // the first ones, that have no experts
    int global_head_dim = 0;              // of layers without a window, where it is another (gemma4)
    int global_kv_heads = 0;              //
    bool untied = false;                  // a matrix of its own makes the logits; with experts there mostly is one
    DType type = DType::f32;              // of the matrices
    std::optional<DType> embedding = {};  // the token embedding's own type
    std::optional<Mix> mix = {};          // chooses the types instead of these two, as it does for `quantize`
    uint64_t seed = 0;                    // same seed, same file
};

// Published models of which only the shape is taken, as they are mostly used: Q4_0, the embedding Q6_K or, where its
// rows are no whole blocks of that, Q8_0; the smallest also wholly in Q8_0.
struct NamedShape {
    std::string_view name;  // "gemma3-27b"
    SyntheticSpec spec;
};
std::span<const NamedShape> named_shapes();

// A GGUF file with weights of a size that keeps activations near 1, and a vocabulary of bytes and made-up words.
Status write_random_gguf(const std::filesystem::path& path, const SyntheticSpec& spec);

// The same file in memory only, made by all threads at once: for models that take longer to write than to measure.
struct ReleaseMemory {
    size_t reserved_bytes = 0;  // of address space; 0: it was allocated
    void operator()(std::byte* data) const;
};
struct MemoryFile {
    std::unique_ptr<std::byte[], ReleaseMemory> data;
    size_t size_bytes = 0;

    std::span<const std::byte> bytes() const { return {data.get(), size_bytes}; }
};
using MakeProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;
Result<MemoryFile> make_random_gguf(const SyntheticSpec& spec, ThreadPool& threads, const MakeProgress& progress = {});
// The same file with weights that were never written: for its shape alone, however large. It has no memory but for what
// is written.
Result<MemoryFile> make_empty_gguf(const SyntheticSpec& spec);
// What make_random_gguf() would take.
Result<uint64_t> random_gguf_bytes(const SyntheticSpec& spec);

}  // namespace tandem::models
