// Models of any size with random weights, for tests and benchmarks: speed does not depend on what a model has learnt.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/dtype.h"
#include "base/result.h"

namespace tandem::models {

struct SyntheticSpec {
    std::string family = "gemma3";  // gemma3, llama, qwen2 or qwen3
    int dim = 64;
    int layers = 2;
    int heads = 4;
    int kv_heads = 2;
    int head_dim = 16;
    int ffn_dim = 160;
    int vocab = 320;
    int context_length = 512;
    int window = 0;           // 0: none
    DType type = DType::f32;  // of the matrices
    uint64_t seed = 0;        // same seed, same file
};

// Gemma 3 1B.
SyntheticSpec gemma3_1b_shape(DType type);

// A GGUF file with weights of a size that keeps activations near 1, and a vocabulary of bytes and made-up words.
Status write_random_gguf(const std::filesystem::path& path, const SyntheticSpec& spec);

}  // namespace tandem::models
