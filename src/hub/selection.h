// Selection: which files of a repository are a model, and which of its quantizations is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::hub {

// A file as far as its choice goes.
struct FileEntry {
    std::string path;  // in the repository
    uint64_t size_bytes = 0;
};

// One of the models that a repository has: a GGUF file with all its parts, or its safetensors with what belongs to
// them.
struct Variant {
    std::string label;             // "Q4_K_M"; "safetensors"
    std::string first;             // the file to open, or the folder of a safetensors model ("" is the repository's)
    std::vector<FileEntry> files;  //
    bool is_complete = true;       // all parts are there
    uint64_t size_bytes() const;   // of all files
};

// The quantization that a file's name tells, in capitals; else the name without its ending.
std::string quant_label(std::string_view path);

// All of them, in the order of the files.
std::vector<Variant> find_variants(const std::vector<FileEntry>& files);

struct Selection {
    Variant variant;
    std::string why;  // it was taken and not another; empty: it was asked for
};

// `tag` is a label, a file's name or a part of its path, whatever its case; empty: Q4_K_M or what comes nearest.
// `name` stands in messages.
Result<Selection> select_variant(const std::vector<FileEntry>& files, std::string_view tag, std::string_view name);

}  // namespace tandem::hub
