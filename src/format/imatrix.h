// Importance matrices: how large the inputs of every matrix are by column, as llama.cpp's imatrix measures it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::format {

struct Imatrix {
    // Sums of squared inputs by column, of each expert's matrix after the other, and how many rows of inputs each part
    // was summed over: sums.size() is a multiple of counts.size().
    struct Entry {
        std::vector<float> sums;
        std::vector<float> counts;

        // The mean squares; 1 where nothing was measured.
        std::vector<float> means() const;
    };

    std::string name;                                   // of the file
    std::map<std::string, Entry, std::less<>> entries;  // by name of the tensor, which is never empty
    std::vector<std::string> datasets;                  // the texts it was measured with
    uint32_t chunks = 0;                                // windows of text
    uint32_t chunk_tokens = 0;                          // of a window; 0: not known

    const Entry* find(std::string_view tensor) const;

    // A GGUF file (general.type "imatrix"), or the older format that is mostly called imatrix.dat. All numbers are
    // finite and none is negative.
    static Result<Imatrix> open(const std::filesystem::path& path);
    static Result<Imatrix> parse(std::span<const std::byte> bytes, std::string name);

    // As GGUF.
    Status write(const std::filesystem::path& path) const;
};

}  // namespace tandem::format
