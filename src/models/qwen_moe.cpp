// Qwen 2 and 3 with experts. Qwen 2's weigh as much as their softmax says, and one expert more, with a gate, is for all
// rows; Qwen 3's weights add up to 1.
#include <fmt/format.h>

#include "models/families.h"
#include "models/plain_decoder.h"
#include "models/qwen.h"

namespace tandem::models {

namespace {

// config.json may leave layers without experts: those it lists, and all but every so manyth.
std::vector<bool> read_dense_layers(Settings& s, int layers) {
    std::vector<bool> dense(static_cast<size_t>(layers), false);
    if (s.is_gguf()) return dense;
    const int step = s.count({"", "decoder_sparse_step"}, kMaxLayers, 1);
    for (size_t i = 0; i < dense.size(); ++i) dense[i] = (i + 1) % static_cast<size_t>(step) != 0;
    if (!s.has_value({"", "mlp_only_layers"})) return dense;
    for (const double layer : s.numbers("mlp_only_layers")) {
        if (layer >= 0 && layer < layers) dense[static_cast<size_t>(layer)] = true;
    }
    return dense;
}

Result<PlainConfig> read_qwen2_moe(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 16, .context_length = 32768, .experts = true});
    cfg.windows = read_qwen_windows(s, cfg.layers);
    cfg.qkv_bias = s.flag({"", "qkv_bias"}, true);
    ExpertConfig experts = read_experts(s, {.count = 60, .used = 4, .ffn_dim = 1408}, cfg.ffn_dim);
    experts.route.normalize = s.flag({"", "norm_topk_prob"}, false);
    experts.shared_dim = s.count({"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}, kMaxFfnDim,
                                 s.is_gguf() ? cfg.ffn_dim : 5632);
    experts.shared_gate = true;
    cfg.experts = experts;
    cfg.dense = read_dense_layers(s, cfg.layers);
    TRY(s.status());
    return cfg;
}

Result<PlainConfig> read_qwen3_moe(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 4, .head_dim = 128, .context_length = 32768, .experts = true});
    cfg.windows = read_qwen_windows(s, cfg.layers);
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.output_bias = read_bias(s, {"blk.0.attn_output.bias", "attention_bias"});
    cfg.qk_norm = true;
    ExpertConfig experts = read_experts(s, {.count = 128, .used = 8, .ffn_dim = 768}, cfg.ffn_dim);
    experts.route.normalize = s.is_gguf() || s.flag({"", "norm_topk_prob"}, false);
    cfg.experts = experts;
    cfg.dense = read_dense_layers(s, cfg.layers);
    TRY(s.status());
    return cfg;
}

// A GGUF file does not say whether weights are normalised; readers go by the family.
Status check_normalized(const Settings& s, const PlainConfig& cfg, bool usual) {
    if (cfg.experts->route.normalize == usual) return Ok{};
    return fail("{}: GGUF cannot say that 'norm_topk_prob' is {} in this family", s.checkpoint().name(), !usual);
}

Status write_qwen2_moe(Settings s, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_qwen2_moe(s));
    TRY(check_normalized(s, cfg, false));
    writer.set(fmt::format("{}.expert_shared_feed_forward_length", s.architecture()),
               static_cast<uint32_t>(cfg.experts->shared_dim));
    return write_plain_settings(s, cfg, writer);
}

Status write_qwen3_moe(Settings s, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_qwen3_moe(s));
    TRY(check_normalized(s, cfg, true));
    return write_plain_settings(s, cfg, writer);
}

}  // namespace

const Family& qwen2_moe() {
    static const Family family{.name = "qwen2_moe",
                               .architecture = "qwen2moe",
                               .architectures = {"qwen2moe"},
                               .model_types = {"qwen2_moe", "Qwen2MoeForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_qwen2_moe>,
                               .write_settings = write_qwen2_moe};
    return family;
}

const Family& qwen3_moe() {
    static const Family family{.name = "qwen3_moe",
                               .architecture = "qwen3moe",
                               .architectures = {"qwen3moe"},
                               .model_types = {"qwen3_moe", "Qwen3MoeForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_qwen3_moe>,
                               .write_settings = write_qwen3_moe};
    return family;
}

}  // namespace tandem::models
