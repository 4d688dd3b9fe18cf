// Writes a checkpoint as a GGUF file, its matrices in another type where that is asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "base/dtype.h"
#include "base/result.h"
#include "base/threads.h"
#include "format/checkpoint.h"
#include "format/gguf_writer.h"

namespace tandem::models {

struct ExportOptions {
    DType type = DType::f16;  // of the matrices; norms and biases stay f32
    ThreadPool* threads = nullptr;
    // Called as bytes are written.
    std::function<void(uint64_t done, uint64_t total)> progress = {};
    // Adds what this folder does not know: the tokenizer of a Hugging Face directory.
    std::function<Status(format::GgufWriter&)> add_metadata = {};
};

// The type a matrix is stored in when `type` is asked for: q6_k for the matrix that makes the logits of q4_k and q5_k
// files, as llama.cpp does it; q8_0, or else f16, where a row is no whole number of blocks.
DType stored_type(DType type, int64_t cols, bool makes_logits);

// A Hugging Face directory gets the names, keys and order of rows that llama.cpp's converter gives it; a GGUF file
// keeps all its metadata. One tensor at a time is in memory, and of it only a slice.
Status export_gguf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                   const ExportOptions& options);

}  // namespace tandem::models
