// Granite 3 and 4 (dense): a Llama with a factor on the embedding, on the scores, on what every layer adds, and on the
// logits.
#include <fmt/format.h>

#include <cmath>

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

constexpr Range kScaleRange{0, 1e6};

// 0 is how a GGUF file says nothing.
float read_scale(Settings& s, const Key& key, double usual) {
    const double scale = s.real(key, kScaleRange, 0);
    return static_cast<float>(scale == 0 ? usual : scale);
}

Result<PlainConfig> read_config(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.context_length = 2048});
    if (s.is_gguf()) cfg.rope_layout = op::RopeLayout::interleaved;
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.output_bias = read_bias(s, {"blk.0.attn_output.bias", "attention_bias"});
    cfg.ffn_bias = read_bias(s, {"blk.0.ffn_gate.bias", "mlp_bias"});
    cfg.embedding_scale = read_scale(s, {"embedding_scale", "embedding_multiplier"}, 1);
    cfg.residual_scale = read_scale(s, {"residual_scale", "residual_multiplier"}, 1);
    cfg.attention_scale = read_scale(s, {"attention.scale", "attention_multiplier"},
                                     s.is_gguf() ? 1 / std::sqrt(static_cast<double>(cfg.head_dim)) : 1);
    cfg.logit_scale = 1 / read_scale(s, {"logit_scale", "logits_scaling"}, 1);
    TRY(s.status());
    return cfg;
}

Status write_settings(Settings s, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_config(s));
    const auto set = [&](std::string_view key, float value) {
        writer.set(fmt::format("{}.{}", s.architecture(), key), value);
    };
    set("embedding_scale", cfg.embedding_scale);
    set("residual_scale", cfg.residual_scale);
    set("attention.scale", cfg.attention_scale);
    set("logit_scale", 1 / cfg.logit_scale);
    return write_plain_settings(s, cfg, writer);
}

}  // namespace

const Family& granite() {
    static const Family family{.name = "granite",
                               .architecture = "granite",
                               .architectures = {"granite"},
                               .model_types = {"granite", "GraniteForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_config>,
                               .write_settings = write_settings};
    return family;
}

}  // namespace tandem::models
