// Model: what a model computes and with which numbers, ready to be compiled for a device.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "format/checkpoint.h"
#include "graph/program.h"
#include "graph/weights.h"

namespace tandem::models {

// The sizes every decoder has.
struct Dimensions {
    int dim = 0;       // of a token's row between the layers
    int layers = 0;    //
    int heads = 0;     // of the queries
    int kv_heads = 0;  // of the keys and values; heads is a multiple of it
    int head_dim = 0;  //
    int rope_dim = 0;  // elements of a head that turn with the position
    int ffn_dim = 0;   //
    int vocab = 0;     // rows of the embedding
    int context_length = 0;
};

struct Model : Dimensions {
    std::string family;  // "gemma3"
    std::string name;    // general.name, or the name of the file or directory
    uint64_t parameters = 0;
    graph::Program program;  // results "hidden" f32 [outputs, dim], "logits" f32 [outputs, vocab], "next" i32 [outputs]
    graph::Weights weights;  // under the names that GGUF files use
};

// The checkpoint must outlive the Model: big weights are views of it.
Result<Model> load(const format::Checkpoint& checkpoint);

}  // namespace tandem::models
