// GLM-4 with experts (4.5, Air and later): the first layers are without, experts are chosen by the sigmoid of their
// logits and a correction, and one expert more is for all rows.
#include <fmt/format.h>

#include <algorithm>

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

// Values of expert_gating_func.
constexpr int kSoftmax = 1;
constexpr int kSigmoid = 2;

op::Route read_route(Settings& s, op::Route route) {
    const int function = s.count({"expert_gating_func", ""}, 4, kSigmoid);
    if (function != kSoftmax && function != kSigmoid)
        s.reject(fmt::format("expert_gating_func is {}, expected 1 (softmax) or 2 (sigmoid)", function));
    route.score = function == kSoftmax ? op::Score::softmax : op::Score::sigmoid;
    route.normalize = s.flag({"expert_weights_norm", "norm_topk_prob"}, !s.is_gguf());
    const double scale = s.real({"expert_weights_scale", "routed_scaling_factor"}, {0, 1e6}, 1);
    route.scale = scale == 0 ? 1.0F : static_cast<float>(scale);  // 0 is an old way to say none
    route.groups = s.count({"expert_group_count", "n_group"}, kMaxExperts, 1);
    route.used_groups = s.count({"expert_group_used_count", "topk_group"}, kMaxExperts, 1);
    return route;
}

Result<PlainConfig> read_glm4_moe(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 8, .head_dim = 128, .context_length = 131072, .experts = true});
    cfg.gguf_ffn_norm = "post_attention_norm.weight";
    cfg.leading_dense = true;
    // The layers that predict further tokens come last.
    cfg.layers -= static_cast<int>(s.real({"nextn_predict_layers", ""}, {0, double(cfg.layers) - 1}, 0));
    cfg.windows.resize(static_cast<size_t>(cfg.layers));
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.qk_norm = read_bias(s, {"blk.0.attn_q_norm.weight", "use_qk_norm"});
    ExpertConfig experts = read_experts(s, {.count = 128, .used = 8, .ffn_dim = 1408}, cfg.ffn_dim);
    experts.route = read_route(s, experts.route);
    experts.correction_bias = true;
    const double shared = s.real({"expert_shared_count", "n_shared_experts"}, {0, 64}, 1);
    experts.shared_dim = static_cast<int>(shared) * experts.ffn_dim;
    experts.names.shared = "mlp.shared_experts";
    if (!fits(experts)) s.reject("the groups of experts are not of one size, or have fewer experts than a token uses");
    cfg.experts = experts;
    const double dense =
        s.real({"leading_dense_block_count", "first_k_dense_replace"}, {0, kMaxLayers}, s.is_gguf() ? 0 : 1);
    cfg.dense.assign(static_cast<size_t>(cfg.layers), false);
    std::fill_n(cfg.dense.begin(), std::min(static_cast<size_t>(dense), cfg.dense.size()), true);
    TRY(s.status());
    return cfg;
}

Status write_glm4_moe(Settings s, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_glm4_moe(s));
    const ExpertConfig& experts = *cfg.experts;
    const auto set = [&](std::string_view key, auto value) {
        writer.set(fmt::format("{}.{}", s.architecture(), key), value);
    };
    const auto dense = std::ranges::count(cfg.dense, true);
    set("leading_dense_block_count", static_cast<uint32_t>(dense));
    set("expert_shared_count", static_cast<uint32_t>(experts.shared_dim / experts.ffn_dim));
    set("expert_gating_func", static_cast<uint32_t>(kSigmoid));
    set("expert_weights_norm", experts.route.normalize);
    set("expert_weights_scale", experts.route.scale);
    set("expert_group_count", static_cast<uint32_t>(experts.route.groups));
    set("expert_group_used_count", static_cast<uint32_t>(experts.route.used_groups));
    return write_plain_settings(s, cfg, writer);
}

}  // namespace

const Family& glm4_moe() {
    static const Family family{.name = "glm4_moe",
                               .architecture = "glm4moe",
                               .architectures = {"glm4moe"},
                               .model_types = {"glm4_moe", "Glm4MoeForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_glm4_moe>,
                               .write_settings = write_glm4_moe};
    return family;
}

}  // namespace tandem::models
