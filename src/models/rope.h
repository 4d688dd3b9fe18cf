// Rope settings: the base and the kinds of scaling that models use, turned into the frequencies of op::Rope.
#pragma once

#include <string_view>
#include <vector>

#include "format/gguf_writer.h"
#include "graph/ops.h"
#include "models/model.h"
#include "models/settings.h"

namespace tandem::models {

struct RopeSettings {
    enum class Scaling : uint8_t { none, linear, llama3, yarn, longrope };

    int dim = 0;  // elements of a head that turn
    double base = 10000;
    Scaling scaling = Scaling::none;
    double factor = 1;            // by which the context was stretched
    double original_context = 0;  // before it was
    double low_freq_factor = 1;   // llama3
    double high_freq_factor = 4;
    double beta_fast = 32;  // yarn
    double beta_slow = 1;
    bool truncate = true;
    double magnitude = 1;
    std::vector<float> divisors = {};        // of the frequencies, as in rope_freqs.weight; empty: none
    std::vector<float> short_divisors = {};  // longrope: within the original context, and past it
    std::vector<float> long_divisors = {};
    double query_growth = 0;  // of queries past the original context (op::ScaleByPosition)
};

// Where a model keeps the rope of a kind of layers.
struct RopeKeys {
    std::string_view gguf_base = "rope.freq_base";
    std::string_view hf_base = "rope_theta";
    std::string_view gguf_dim = "rope.dimension_count";
    std::string_view layer_type = {};  // under rope_parameters of transformers 5, where ropes differ by layer
    bool scaled = true;                // false: scaling that is not said per layer type is not for these layers
    double usual_base = 10000;
};

RopeSettings read_rope(Settings& settings, const Dimensions& dims, const RopeKeys& keys = {});

op::Rope make_rope(const RopeSettings& rope, int head_dim, op::RopeLayout layout);

// The keys of `rope` for a GGUF file, and rope_freqs.weight where it is needed.
Status write_rope(const Settings& settings, const RopeSettings& rope, format::GgufWriter& writer);

}  // namespace tandem::models
