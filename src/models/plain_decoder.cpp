#include "models/plain_decoder.h"

#include <algorithm>
#include <cmath>

#include "models/binder.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

bool has_experts(const PlainConfig& cfg, size_t layer) {
    return cfg.experts && (cfg.dense.empty() || !cfg.dense[layer]);
}

struct Layer {
    Tensor attn_norm;        // [dim]
    Tensor q, q_bias;        // [heads * head_dim, dim], [heads * head_dim]
    Tensor k, k_bias;        // [kv_heads * head_dim, dim], [kv_heads * head_dim]
    Tensor v, v_bias;        // [kv_heads * head_dim, dim], [kv_heads * head_dim]
    Tensor q_norm, k_norm;   // [head_dim] each
    Tensor o, o_bias;        // [dim, heads * head_dim], [dim]
    Tensor ffn_norm;         // [dim]
    Tensor gate, gate_bias;  // [ffn_dim, dim], [ffn_dim]
    Tensor up, up_bias;      // [ffn_dim, dim], [ffn_dim]
    Tensor down, down_bias;  // [dim, ffn_dim], [dim]
    Tensor sinks;            // [heads]
    ExpertLayer experts;     // in place of gate, up and down
};

struct PlainDecoder {
    PlainConfig cfg;
    op::Rope rope;
    Tensor embedding;  // [vocab, dim]
    Head head;
    std::vector<Layer> layers;

    Tensor attention(Graph& g, Tensor x, size_t i) const;
    Tensor feed_forward(Graph& g, Tensor h, size_t i) const;
    Tensor block(Graph& g, Tensor x, size_t i) const;
    void forward(Graph& g) const;
};

Tensor PlainDecoder::attention(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];
    const int window = cfg.windows[i];
    const int cache = g.cache(cfg.kv_heads, cfg.head_dim, window);
    Tensor q = g.linear(w.q, x, w.q_bias);
    Tensor k = g.linear(w.k, x, w.k_bias);
    if (cfg.qk_norm) {
        q = g.rms_norm(q, w.q_norm, cfg.eps);
        k = g.rms_norm(k, w.k_norm, cfg.eps);
    }
    if (cfg.turned.empty() || cfg.turned[i]) {
        q = g.rope(q, g.positions(), rope);
        k = g.rope(k, g.positions(), rope);
    }
    if (cfg.rope.query_growth > 0) {
        q = g.scale_by_position(q, {.growth = static_cast<float>(cfg.rope.query_growth),
                                    .every = static_cast<int>(cfg.rope.original_context)});
    }
    const Tensor written = g.kv_write(k, g.linear(w.v, x, w.v_bias), cache);
    const Tensor a = g.attention(
        q, written,
        {.cache = cache,
         .heads = cfg.heads,
         .kv_heads = cfg.kv_heads,
         .head_dim = cfg.head_dim,
         .scale = cfg.attention_scale > 0 ? cfg.attention_scale : 1.0F / std::sqrt(static_cast<float>(cfg.head_dim)),
         .window = window},
        w.sinks);
    return g.linear(w.o, a, w.o_bias);
}

Tensor PlainDecoder::feed_forward(Graph& g, Tensor h, size_t i) const {
    const Layer& w = layers[i];
    if (has_experts(cfg, i)) return apply_experts(g, *cfg.experts, w.experts, h, h);
    const Tensor f = g.glu(g.linear(w.gate, h, w.gate_bias), g.linear(w.up, h, w.up_bias), cfg.activation);
    return g.linear(w.down, f, w.down_bias);
}

Tensor PlainDecoder::block(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];  // x: [tokens, dim]
    x = g.add(x, g.scale(attention(g, g.rms_norm(x, w.attn_norm, cfg.eps), i), cfg.residual_scale));
    return g.add(x, g.scale(feed_forward(g, g.rms_norm(x, w.ffn_norm, cfg.eps), i), cfg.residual_scale));
}

void PlainDecoder::forward(Graph& g) const {
    Tensor x = g.embed(embedding, g.tokens(), cfg.embedding_scale);
    for (size_t i = 0; i < layers.size(); ++i) x = block(g, x, i);
    add_results(g, x, head);
}

Layer bind_layer(Binder& b, const PlainConfig& cfg, int i) {
    const int64_t q_dim = int64_t{cfg.heads} * cfg.head_dim;
    const int64_t kv_dim = int64_t{cfg.kv_heads} * cfg.head_dim;
    const auto matrix = [&](WeightName name, int64_t rows, int64_t cols) { return b.matrix(i, name, rows, cols); };
    const auto qkv = [&](WeightName name, int64_t first, int64_t rows) {
        if (!cfg.fused) return b.matrix(i, name, rows, cfg.dim);
        return b.rows(i, {"attn_qkv.weight", "self_attn.qkv_proj.weight"}, {first, rows, q_dim + 2 * kv_dim}, cfg.dim);
    };
    const auto gate_up = [&](WeightName name, int64_t first) {
        if (!cfg.fused) return b.matrix(i, name, cfg.ffn_dim, cfg.dim);
        return b.rows(i, {"ffn_up.weight", "mlp.gate_up_proj.weight"}, {first, cfg.ffn_dim, 2 * int64_t{cfg.ffn_dim}},
                      cfg.dim);
    };
    const auto norm = [&](WeightName name) { return b.vector(i, name, cfg.dim); };
    const auto maybe = [&](bool wanted, WeightName name, int64_t count) {
        return wanted ? b.vector(i, name, count) : Tensor{};
    };
    Layer w;
    w.attn_norm = norm({"attn_norm.weight", "input_layernorm.weight"});
    w.q = qkv({"attn_q.weight", "self_attn.q_proj.weight"}, 0, q_dim);
    w.q_bias = maybe(cfg.qkv_bias, {"attn_q.bias", "self_attn.q_proj.bias"}, q_dim);
    w.k = qkv({"attn_k.weight", "self_attn.k_proj.weight"}, q_dim, kv_dim);
    w.k_bias = maybe(cfg.qkv_bias, {"attn_k.bias", "self_attn.k_proj.bias"}, kv_dim);
    w.v = qkv({"attn_v.weight", "self_attn.v_proj.weight"}, q_dim + kv_dim, kv_dim);
    w.v_bias = maybe(cfg.qkv_bias, {"attn_v.bias", "self_attn.v_proj.bias"}, kv_dim);
    w.q_norm = maybe(cfg.qk_norm, {"attn_q_norm.weight", "self_attn.q_norm.weight"}, cfg.head_dim);
    w.k_norm = maybe(cfg.qk_norm, {"attn_k_norm.weight", "self_attn.k_norm.weight"}, cfg.head_dim);
    w.sinks = maybe(cfg.sinks, {"attn_sinks.weight", "self_attn.sinks"}, cfg.heads);
    w.o = matrix({"attn_output.weight", "self_attn.o_proj.weight"}, cfg.dim, q_dim);
    w.o_bias = maybe(cfg.output_bias, {"attn_output.bias", "self_attn.o_proj.bias"}, cfg.dim);
    w.ffn_norm = norm({cfg.gguf_ffn_norm, "post_attention_layernorm.weight"});
    if (has_experts(cfg, static_cast<size_t>(i))) {
        w.experts = bind_expert_layer(b, i, *cfg.experts, cfg.dim);
        return w;
    }
    w.gate = gate_up({"ffn_gate.weight", "mlp.gate_proj.weight"}, 0);
    w.gate_bias = maybe(cfg.ffn_bias, {"ffn_gate.bias", "mlp.gate_proj.bias"}, cfg.ffn_dim);
    w.up = gate_up({"ffn_up.weight", "mlp.up_proj.weight"}, cfg.ffn_dim);
    w.up_bias = maybe(cfg.ffn_bias, {"ffn_up.bias", "mlp.up_proj.bias"}, cfg.ffn_dim);
    w.down = matrix({"ffn_down.weight", "mlp.down_proj.weight"}, cfg.dim, cfg.ffn_dim);
    w.down_bias = maybe(cfg.ffn_bias, {"ffn_down.bias", "mlp.down_proj.bias"}, cfg.dim);
    return w;
}

}  // namespace

PlainConfig read_plain_config(Settings& s, const HfDefaults& defaults, const RopeKeys& rope) {
    PlainConfig cfg;
    static_cast<Dimensions&>(cfg) = read_dimensions(s, defaults);
    cfg.eps = read_eps(s);
    cfg.windows.assign(static_cast<size_t>(cfg.layers), 0);
    cfg.rope = read_rope(s, cfg, rope);
    cfg.rope_dim = cfg.rope.dim;
    cfg.activation = read_activation(s, op::Activation::silu);
    cfg.tied = s.flag({"", "tie_word_embeddings"}, false);
    return cfg;
}

bool read_bias(Settings& s, const Key& key) {
    return s.is_gguf() ? s.checkpoint().find(key.gguf) != nullptr : s.flag({"", key.hf}, false);
}

Result<Model> load_plain_decoder(const Settings& s, const PlainConfig& cfg) {
    Graph g;
    Binder b(s.checkpoint(), g);
    PlainDecoder model;
    model.cfg = cfg;
    model.rope = make_rope(cfg.rope, cfg.head_dim, cfg.rope_layout);
    model.embedding = b.embedding(cfg.vocab, cfg.dim);
    model.head = {.norm = b.vector(kNoLayer, {"output_norm.weight", "norm.weight"}, cfg.dim),
                  .output = b.output(cfg.vocab, cfg.dim, cfg.tied),
                  .eps = cfg.eps,
                  .scale = cfg.logit_scale};
    for (int i = 0; i < cfg.layers; ++i) model.layers.push_back(bind_layer(b, cfg, i));
    TRY(b.status());
    model.forward(g);
    return assemble(s, cfg, std::move(g), std::move(b));
}

namespace {

// Some families' files can say how many of the first layers have no experts.
Status check_dense_layers(const Settings& s, const PlainConfig& cfg) {
    const auto experts_begin = std::ranges::find(cfg.dense, false);
    const bool leading = std::ranges::find(experts_begin, cfg.dense.end(), true) == cfg.dense.end();
    if (leading && (experts_begin == cfg.dense.begin() || cfg.leading_dense)) return Ok{};
    return fail("{}: GGUF cannot say which layers of a model of this family have no experts", s.checkpoint().name());
}

}  // namespace

Status write_plain_settings(const Settings& s, const PlainConfig& cfg, format::GgufWriter& writer) {
    TRY(check_writable(s, cfg.activation, cfg.usual_activation));
    write_dimensions(s, cfg, cfg.eps, writer);
    write_windows(s, cfg.windows, cfg.usual_window_period, writer);
    if (cfg.experts) {
        TRY(check_dense_layers(s, cfg));
        write_experts(s, *cfg.experts, writer);
    }
    return write_rope(s, cfg.rope, writer);
}

}  // namespace tandem::models
