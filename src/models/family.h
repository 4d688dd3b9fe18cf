// Family: a kind of model that Tandem knows. Adding one is a file like gemma.cpp and a line in families.h and
// registry.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf_writer.h"
#include "graph/ops.h"
#include "models/model.h"
#include "models/settings.h"

namespace tandem::models {

struct Family {
    std::string_view name;
    std::string_view architecture;                // general.architecture of the GGUF files we write
    std::vector<std::string_view> architectures;  // those we read
    std::vector<std::string_view> model_types;    // model_type of config.json, and its class in `architectures`
    // Which elements rope pairs in a GGUF file; config.json's models always pair halves, so export may have to permute.
    op::RopeLayout gguf_rope;
    bool takes_bytes = false;  // its checkpoints may have tensors of type u8

    Result<Model> (*load)(Settings settings);
    // Writes the hyperparameters, and tensors that only GGUF has, as llama.cpp's converter does.
    Status (*write_settings)(Settings settings, format::GgufWriter& writer);
};

std::span<const Family* const> families();

// A checkpoint's family and its hyperparameters; an error that lists what is supported for any other family.
struct Identified {
    const Family* family;
    Settings settings;
};
Result<Identified> identify(const format::Checkpoint& checkpoint);

}  // namespace tandem::models
