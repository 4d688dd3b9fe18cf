// The plain decoder: the form that Llama set and that many families keep, with what they add as options.
#pragma once

#include <optional>
#include <vector>

#include "models/decoder.h"
#include "models/experts.h"
#include "models/rope.h"

namespace tandem::models {

struct PlainConfig : Dimensions {
    float eps = 0.0F;
    std::vector<int> windows;  // per layer; 0: none
    RopeSettings rope;
    op::RopeLayout rope_layout = op::RopeLayout::half;
    op::Activation activation = op::Activation::silu;
    bool qkv_bias = false;
    bool output_bias = false;  // of attention
    bool ffn_bias = false;
    bool qk_norm = false;      // of every head's query and key
    bool tied = false;         // the embedding makes the logits too
    bool fused = false;        // q, k and v are one matrix, gate and up another
    bool sinks = false;        // one for each head
    std::vector<bool> turned;  // per layer, whether rope is used; empty: in all
    float embedding_scale = 1.0F;
    float attention_scale = 0.0F;  // of the scores; 0: 1 / sqrt(head_dim)
    float residual_scale = 1.0F;   // of what attention and feed-forward add
    float logit_scale = 1.0F;
    std::string_view gguf_ffn_norm = "ffn_norm.weight";
    std::optional<ExpertConfig> experts;
    std::vector<bool> dense;  // the layers that have no experts all the same; empty: none
    // What the family's GGUF files need not say, or can.
    int usual_window_period = kAllLayers;
    op::Activation usual_activation = op::Activation::silu;
    bool leading_dense = false;  // how many of the first layers have no experts
};

// What all of them say in the same way; windows, biases, norms and the layout are the family's.
PlainConfig read_plain_config(Settings& settings, const HfDefaults& defaults, const RopeKeys& rope = {});

// Whether there is a bias: config.json says so, a GGUF file has the tensor `gguf` of the first layer.
bool read_bias(Settings& settings, const Key& key);

Result<Model> load_plain_decoder(const Settings& settings, const PlainConfig& cfg);
Status write_plain_settings(const Settings& settings, const PlainConfig& cfg, format::GgufWriter& writer);

// The load and write_settings of a Family, from how it reads its configuration.
template <Result<PlainConfig> (*read_config)(Settings&)>
Result<Model> load_plain(Settings settings) {
    const PlainConfig cfg = TRY(read_config(settings));
    return load_plain_decoder(settings, cfg);
}
template <Result<PlainConfig> (*read_config)(Settings&)>
Status write_plain(Settings settings, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_config(settings));
    return write_plain_settings(settings, cfg, writer);
}

}  // namespace tandem::models
