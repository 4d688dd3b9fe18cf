#include "models/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "models/interleaved_experts.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

// config.json has had several names for them.
constexpr std::string_view kCounts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
constexpr std::string_view kUsed[] = {"num_experts_per_tok", "top_k_experts"};

std::string_view key_among(const Settings& s, std::span<const std::string_view> names) {
    const auto found = std::ranges::find_if(names, [&](std::string_view key) { return s.has_value({"", key}); });
    return found == names.end() ? names.front() : *found;
}

}  // namespace

bool fits(const ExpertConfig& cfg) {
    const op::Route& r = cfg.route;
    return cfg.count % r.groups == 0 && r.used_groups <= r.groups && r.used <= cfg.count / r.groups * r.used_groups;
}

bool has_experts(Settings& s) {
    return s.real({"expert_count", ""}, {0, kMaxExperts}, 0) > 0;
}

ExpertConfig read_experts(Settings& s, const ExpertDefaults& d, int dense_ffn_dim) {
    const auto fallback = [&](std::optional<int> value) { return s.is_gguf() ? std::nullopt : value; };
    ExpertConfig cfg;
    cfg.count = s.count({"expert_count", key_among(s, kCounts)}, kMaxExperts, fallback(d.count));
    cfg.route.used = s.count({"expert_used_count", key_among(s, kUsed)}, kMaxExperts, fallback(d.used));
    cfg.ffn_dim = s.count({"expert_feed_forward_length", "moe_intermediate_size"}, kMaxFfnDim,
                          s.is_gguf() ? dense_ffn_dim : d.ffn_dim);
    if (cfg.route.used > cfg.count) {
        s.reject(fmt::format("a token goes to {} experts but there are {}", cfg.route.used, cfg.count));
        cfg.route.used = cfg.count;
    }
    return cfg;
}

void bind_experts(Binder& b, int layer, const ExpertConfig& cfg, int dim, ExpertLayer& to) {
    const std::vector<int64_t> wide = {cfg.count, cfg.ffn_dim, dim};
    const WeightName gate_up{"ffn_gate_up_exps.weight", cfg.names.gate_up};
    const bool together = b.has(layer, gate_up);
    if (together) {
        to.gate = b.experts(layer, gate_up, {cfg.count, int64_t{2} * cfg.ffn_dim, dim});
        to.gate.count = cfg.ffn_dim;
        to.up = to.gate;
        to.up.first = cfg.ffn_dim;
    } else {
        to.gate = b.experts(layer, {"ffn_gate_exps.weight", cfg.names.gate}, wide);
        to.up = b.experts(layer, {"ffn_up_exps.weight", cfg.names.up}, wide);
    }
    to.down = b.experts(layer, {"ffn_down_exps.weight", together ? cfg.names.all_down : cfg.names.down},
                        {cfg.count, dim, cfg.ffn_dim});
    if (!cfg.biased) return;
    to.gate.bias = b.vectors(layer, {"ffn_gate_exps.bias", ""}, cfg.count, cfg.ffn_dim);
    to.up.bias = b.vectors(layer, {"ffn_up_exps.bias", ""}, cfg.count, cfg.ffn_dim);
    to.down.bias = b.vectors(layer, {"ffn_down_exps.bias", ""}, cfg.count, dim);
}

ExpertLayer bind_expert_layer(Binder& b, int layer, const ExpertConfig& cfg, int dim) {
    const std::string router = fmt::format("{}.weight", cfg.names.router);
    const std::string correction = fmt::format("{}.e_score_correction_bias", cfg.names.router);
    ExpertLayer w;
    w.router = b.matrix(layer, {"ffn_gate_inp.weight", router}, cfg.count, dim);
    const std::string bias = fmt::format("{}.bias", cfg.names.router);
    if (cfg.biased) w.router_bias = b.vector(layer, {"ffn_gate_inp.bias", bias}, cfg.count);
    if (cfg.correction_bias) w.correction = b.vector(layer, {"exp_probs_b.bias", correction}, cfg.count);
    if (cfg.interleaved && !b.is_gguf()) {
        bind_interleaved_experts(b, layer, cfg, dim, w);
    } else {
        bind_experts(b, layer, cfg, dim, w);
    }
    if (cfg.shared_dim == 0) return w;
    const auto shared = [&](std::string_view gguf, std::string_view hf, int64_t rows, int64_t cols) {
        const std::string name = fmt::format("{}.{}", cfg.names.shared, hf);
        return b.matrix(layer, {gguf, name}, rows, cols);
    };
    w.shared_gate = shared("ffn_gate_shexp.weight", "gate_proj.weight", cfg.shared_dim, dim);
    w.shared_up = shared("ffn_up_shexp.weight", "up_proj.weight", cfg.shared_dim, dim);
    w.shared_down = shared("ffn_down_shexp.weight", "down_proj.weight", dim, cfg.shared_dim);
    const std::string gate = fmt::format("{}_gate.weight", cfg.names.shared);
    if (cfg.shared_gate) w.shared_weight = b.row(layer, {"ffn_gate_inp_shexp.weight", gate}, dim);
    return w;
}

Tensor apply_experts(Graph& g, const ExpertConfig& cfg, const ExpertLayer& w, Tensor h, Tensor routed) {
    const Tensor routing = g.route(g.linear(w.router, routed, w.router_bias), cfg.route, w.correction);
    const Tensor f = g.glu(g.expert_linear(w.gate, h, routing), g.expert_linear(w.up, h, routing), cfg.activation);
    const Tensor y = g.expert_sum(g.expert_linear(w.down, f, routing), routing);
    if (cfg.shared_dim == 0) return y;
    Tensor shared =
        g.linear(w.shared_down, g.glu(g.linear(w.shared_gate, h), g.linear(w.shared_up, h), cfg.activation));
    if (cfg.shared_gate) shared = g.sigmoid_gate(shared, g.linear(w.shared_weight, h));
    return g.add(y, shared);
}

void write_experts(const Settings& s, const ExpertConfig& cfg, format::GgufWriter& writer) {
    const auto set = [&](std::string_view key, int value) {
        writer.set(fmt::format("{}.{}", s.architecture(), key), static_cast<uint32_t>(value));
    };
    set("expert_count", cfg.count);
    set("expert_used_count", cfg.route.used);
    set("expert_feed_forward_length", cfg.ffn_dim);
}

}  // namespace tandem::models
