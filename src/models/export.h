// Writes a checkpoint as a GGUF file, its matrices in other types where that is asked for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/threads.h"
#include "format/checkpoint.h"
#include "format/gguf_writer.h"
#include "format/imatrix.h"
#include "models/mix.h"

namespace tandem::models {

// What will be written.
struct PlannedTensor {
    std::string name;
    std::vector<int64_t> shape;
    DType from;
    ChosenType type;
    bool is_matrix = false;  // of weights, which get the types of the recipe
    bool has_importance = false;
    uint64_t elements = 0;
    uint64_t size_bytes = 0;
};
struct ExportPlan {
    std::vector<PlannedTensor> tensors;

    double bits_per_weight() const;
};

struct ExportOptions {
    Recipe type = DType::f16;                  // of the matrices; norms and biases stay as they are
    const format::Imatrix* imatrix = nullptr;  // which columns matter more
    ThreadPool* threads = nullptr;
    // Called before the first byte is written; false: nothing is.
    std::function<bool(const ExportPlan&)> planned = {};
    // Called as bytes are written, by one thread at a time; an error ends the writing.
    std::function<Status(uint64_t done, uint64_t total)> progress = {};
    // Adds what this folder does not know: the tokenizer of a Hugging Face directory.
    std::function<Status(format::GgufWriter&)> add_metadata = {};
};

// A Hugging Face directory gets the names, keys and order of rows that llama.cpp's converter gives it; a GGUF file
// keeps all its metadata. All threads read, encode and write pieces of tensors, and only those are in memory.
Status export_gguf(const format::Checkpoint& checkpoint, const std::filesystem::path& path,
                   const ExportOptions& options);

}  // namespace tandem::models
