// OLMo 2: norms after attention and feed-forward instead of before them, and one over all of a row's queries and keys.
#include <cmath>

#include "models/decoder.h"
#include "models/families.h"
#include "models/rope.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

struct Config : Dimensions {
    float eps = 0.0F;
    RopeSettings rope;
    op::Activation activation = op::Activation::silu;
    bool tied = false;
};

struct Layer {
    Tensor q;               // [heads * head_dim, dim]
    Tensor k;               // [kv_heads * head_dim, dim]
    Tensor v;               // [kv_heads * head_dim, dim]
    Tensor q_norm;          // [heads * head_dim]
    Tensor k_norm;          // [kv_heads * head_dim]
    Tensor o;               // [dim, heads * head_dim]
    Tensor post_attn_norm;  // [dim]
    Tensor gate;            // [ffn_dim, dim]
    Tensor up;              // [ffn_dim, dim]
    Tensor down;            // [dim, ffn_dim]
    Tensor post_ffn_norm;   // [dim]
};

struct Olmo2 {
    Config cfg;
    op::Rope rope;
    Tensor embedding;  // [vocab, dim]
    Head head;
    std::vector<Layer> layers;

    Tensor attention(Graph& g, Tensor x, const Layer& w) const;
    Tensor block(Graph& g, Tensor x, const Layer& w) const;
    void forward(Graph& g) const;
};

Tensor Olmo2::attention(Graph& g, Tensor x, const Layer& w) const {
    const int cache = g.cache(cfg.kv_heads, cfg.head_dim, 0);
    const Tensor q = g.rope(g.rms_norm(g.linear(w.q, x), w.q_norm, cfg.eps), g.positions(), rope);
    const Tensor k = g.rope(g.rms_norm(g.linear(w.k, x), w.k_norm, cfg.eps), g.positions(), rope);
    const Tensor written = g.kv_write(k, g.linear(w.v, x), cache);
    const Tensor a = g.attention(q, written,
                                 {.cache = cache,
                                  .heads = cfg.heads,
                                  .kv_heads = cfg.kv_heads,
                                  .head_dim = cfg.head_dim,
                                  .scale = 1.0F / std::sqrt(static_cast<float>(cfg.head_dim))});
    return g.linear(w.o, a);
}

Tensor Olmo2::block(Graph& g, Tensor x, const Layer& w) const {
    x = g.add(x, g.rms_norm(attention(g, x, w), w.post_attn_norm, cfg.eps));  // x: [tokens, dim]
    const Tensor f = g.linear(w.down, g.glu(g.linear(w.gate, x), g.linear(w.up, x), cfg.activation));
    return g.add(x, g.rms_norm(f, w.post_ffn_norm, cfg.eps));
}

void Olmo2::forward(Graph& g) const {
    Tensor x = g.embed(embedding, g.tokens());
    for (const Layer& layer : layers) x = block(g, x, layer);
    add_results(g, x, head);
}

Result<Config> read_config(Settings& s) {
    Config cfg;
    static_cast<Dimensions&>(cfg) = read_dimensions(s, {.context_length = 2048});
    cfg.eps = read_eps(s, 1e-5);
    cfg.rope = read_rope(s, cfg);
    cfg.rope_dim = cfg.rope.dim;
    cfg.activation = read_activation(s, op::Activation::silu);
    cfg.tied = s.flag({"", "tie_word_embeddings"}, false);
    if (s.flag({"", "attention_bias"}, false)) s.reject("OLMo 2 with attention_bias is not supported");
    if (s.has_value({"attention.sliding_window", "sliding_window"})) {
        s.reject("a sliding window, which OLMo 3 has, is not supported");
    }
    TRY(s.status());
    return cfg;
}

Layer bind_layer(Binder& b, const Config& cfg, int i) {
    const int64_t q_dim = int64_t{cfg.heads} * cfg.head_dim;
    const int64_t kv_dim = int64_t{cfg.kv_heads} * cfg.head_dim;
    const auto matrix = [&](WeightName name, int64_t rows, int64_t cols) { return b.matrix(i, name, rows, cols); };
    const auto norm = [&](WeightName name, int64_t count) { return b.vector(i, name, count); };
    return {
        .q = matrix({"attn_q.weight", "self_attn.q_proj.weight"}, q_dim, cfg.dim),
        .k = matrix({"attn_k.weight", "self_attn.k_proj.weight"}, kv_dim, cfg.dim),
        .v = matrix({"attn_v.weight", "self_attn.v_proj.weight"}, kv_dim, cfg.dim),
        .q_norm = norm({"attn_q_norm.weight", "self_attn.q_norm.weight"}, q_dim),
        .k_norm = norm({"attn_k_norm.weight", "self_attn.k_norm.weight"}, kv_dim),
        .o = matrix({"attn_output.weight", "self_attn.o_proj.weight"}, cfg.dim, q_dim),
        .post_attn_norm = norm({"post_attention_norm.weight", "post_attention_layernorm.weight"}, cfg.dim),
        .gate = matrix({"ffn_gate.weight", "mlp.gate_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .up = matrix({"ffn_up.weight", "mlp.up_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .down = matrix({"ffn_down.weight", "mlp.down_proj.weight"}, cfg.dim, cfg.ffn_dim),
        .post_ffn_norm = norm({"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}, cfg.dim),
    };
}

Result<Model> load(Settings s) {
    const Config cfg = TRY(read_config(s));
    Graph g;
    Binder b(s.checkpoint(), g);
    Olmo2 model;
    model.cfg = cfg;
    model.rope = make_rope(cfg.rope, cfg.head_dim, op::RopeLayout::half);
    model.embedding = b.embedding(cfg.vocab, cfg.dim);
    model.head = {.norm = b.vector(kNoLayer, {"output_norm.weight", "norm.weight"}, cfg.dim),
                  .output = b.output(cfg.vocab, cfg.dim, cfg.tied),
                  .eps = cfg.eps};
    for (int i = 0; i < cfg.layers; ++i) model.layers.push_back(bind_layer(b, cfg, i));
    TRY(b.status());
    model.forward(g);
    return assemble(s, cfg, std::move(g), std::move(b));
}

Status write_settings(Settings s, format::GgufWriter& writer) {
    const Config cfg = TRY(read_config(s));
    TRY(check_writable(s, cfg.activation, op::Activation::silu));
    write_dimensions(s, cfg, cfg.eps, writer);
    return write_rope(s, cfg.rope, writer);
}

}  // namespace

const Family& olmo2() {
    static const Family family{.name = "olmo2",
                               .architecture = "olmo2",
                               .architectures = {"olmo2"},
                               .model_types = {"olmo2", "Olmo2ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load,
                               .write_settings = write_settings};
    return family;
}

}  // namespace tandem::models
