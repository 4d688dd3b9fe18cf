// ModelSummary: what a model is by its headers alone, also when its family is unknown; no weight is touched.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/checkpoint.h"

namespace tandem::cli {

struct TypeTotal {
    uint64_t tensors = 0;
    uint64_t elements = 0;
    uint64_t size_bytes = 0;
};

struct ModelSummary {
    std::string name;
    std::string format;        // "GGUF v3", "Hugging Face"
    std::string family;        // general.architecture or model_type; empty when there is none
    std::string quantization;  // the mix that general.file_type names: "q4_k_m"; empty when there is none
    uint64_t file_bytes = 0;
    // The sizes that the headers name, in the order they are shown: ("layers", 62).
    std::vector<std::pair<std::string_view, int64_t>> sizes;
    TypeTotal total;
    std::map<std::string, TypeTotal> by_type;  // types that Tandem does not read too

    double bits_per_weight() const;
};

ModelSummary summarize(const format::Checkpoint& checkpoint);

// Metadata of a GGUF file or config.json: names, and values as JSON with every element.
nlohmann::ordered_json metadata_json(const format::Checkpoint& checkpoint);

// The same for people: one line per key, arrays and long texts shortened.
std::vector<std::pair<std::string, std::string>> metadata_lines(const format::Checkpoint& checkpoint);

}  // namespace tandem::cli
