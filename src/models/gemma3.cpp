// Gemma 3: layers with a sliding window and now and then one that sees everything, each kind with its own rope; norms
// before and after attention and feed-forward, and on every head's query and key.
#include <cmath>

#include "models/decoder.h"
#include "models/families.h"
#include "models/rope.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

constexpr int kUsualPeriod = 6;  // five sliding layers, then a global one

struct Config : Dimensions {
    float eps = 0.0F;
    std::vector<int> windows;  // per layer; 0: global
    RopeSettings global_rope;
    RopeSettings local_rope;
    op::Activation activation = op::Activation::gelu_tanh;
    float scale = 0.0F;  // of the attention scores
    float attention_softcap = 0.0F;
    float final_softcap = 0.0F;
    bool tied = true;
};

struct Layer {
    Tensor attn_norm;       // [dim]
    Tensor q;               // [heads * head_dim, dim]
    Tensor k;               // [kv_heads * head_dim, dim]
    Tensor v;               // [kv_heads * head_dim, dim]
    Tensor q_norm;          // [head_dim]
    Tensor k_norm;          // [head_dim]
    Tensor o;               // [dim, heads * head_dim]
    Tensor post_attn_norm;  // [dim]
    Tensor ffn_norm;        // [dim]
    Tensor gate;            // [ffn_dim, dim]
    Tensor up;              // [ffn_dim, dim]
    Tensor down;            // [dim, ffn_dim]
    Tensor post_ffn_norm;   // [dim]
};

struct Gemma3 {
    Config cfg;
    op::Rope global_rope;
    op::Rope local_rope;
    Tensor embedding;  // [vocab, dim]
    Head head;
    std::vector<Layer> layers;

    Tensor attention(Graph& g, Tensor x, size_t i) const;
    Tensor block(Graph& g, Tensor x, size_t i) const;
    void forward(Graph& g) const;
};

Tensor Gemma3::attention(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];
    const int window = cfg.windows[i];
    const op::Rope& rope = window == 0 ? global_rope : local_rope;
    const int cache = g.cache(cfg.kv_heads, cfg.head_dim, window);
    const Tensor q = g.rope(g.rms_norm(g.linear(w.q, x), w.q_norm, cfg.eps), g.positions(), rope);
    const Tensor k = g.rope(g.rms_norm(g.linear(w.k, x), w.k_norm, cfg.eps), g.positions(), rope);
    const Tensor written = g.kv_write(k, g.linear(w.v, x), cache);
    const Tensor a = g.attention(q, written,
                                 {.cache = cache,
                                  .heads = cfg.heads,
                                  .kv_heads = cfg.kv_heads,
                                  .head_dim = cfg.head_dim,
                                  .scale = cfg.scale,
                                  .window = window,
                                  .softcap = cfg.attention_softcap});
    return g.linear(w.o, a);
}

Tensor Gemma3::block(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];  // x: [tokens, dim]
    const Tensor a = attention(g, g.rms_norm(x, w.attn_norm, cfg.eps), i);
    x = g.add(x, g.rms_norm(a, w.post_attn_norm, cfg.eps));
    const Tensor h = g.rms_norm(x, w.ffn_norm, cfg.eps);
    const Tensor f = g.linear(w.down, g.glu(g.linear(w.gate, h), g.linear(w.up, h), cfg.activation));
    return g.add(x, g.rms_norm(f, w.post_ffn_norm, cfg.eps));
}

void Gemma3::forward(Graph& g) const {
    Tensor x = g.embed(embedding, g.tokens(), std::sqrt(static_cast<float>(cfg.dim)));
    for (size_t i = 0; i < layers.size(); ++i) x = block(g, x, i);
    add_results(g, x, head);
}

// The 27B model, known by its layers, is the only one whose scores are not scaled by its head_dim.
int usual_query_scalar(const Dimensions& dims) {
    return dims.layers == 62 ? dims.dim / dims.heads : dims.head_dim;
}

std::vector<int> read_windows(Settings& s, int layers) {
    if (s.is_gguf()) return read_gguf_windows(s, layers, kUsualPeriod);
    const int window = s.count({"", "sliding_window"}, kMaxContext, 4096);
    if (auto windows = read_layer_types(s, layers, window)) return *std::move(windows);
    const int period = s.count({"", "sliding_window_pattern"}, kMaxLayers,
                               s.count({"", "_sliding_window_pattern"}, kMaxLayers, kUsualPeriod));
    return periodic_windows(layers, period, window);
}

Result<Config> read_config(Settings& s) {
    Config cfg;
    static_cast<Dimensions&>(cfg) = read_dimensions(s, {.dim = 2304,
                                                        .layers = 26,
                                                        .heads = 8,
                                                        .kv_heads = 4,
                                                        .head_dim = 256,
                                                        .ffn_dim = 9216,
                                                        .context_length = 131072});
    cfg.eps = read_eps(s);
    cfg.windows = read_windows(s, cfg.layers);
    cfg.global_rope = read_rope(s, cfg, {.layer_type = "full_attention", .usual_base = 1e6});
    cfg.local_rope = read_rope(s, cfg,
                               {.gguf_base = "rope.freq_base_swa",
                                .hf_base = "rope_local_base_freq",
                                .layer_type = "sliding_attention",
                                .scaled = false,
                                .usual_base = 1e4});
    cfg.rope_dim = cfg.global_rope.dim;
    cfg.activation = read_activation(s, op::Activation::gelu_tanh);
    const double scalar =
        s.real({"", "query_pre_attn_scalar"}, {1e-6, 1e9}, s.is_gguf() ? usual_query_scalar(cfg) : 256);
    cfg.scale = static_cast<float>(s.real({"attention.scale", ""}, {1e-6, 1e6}, 1 / std::sqrt(scalar)));
    cfg.attention_softcap =
        static_cast<float>(s.real({"attn_logit_softcapping", "attn_logit_softcapping"}, {0, 1e6}, 0));
    cfg.final_softcap = static_cast<float>(s.real({"final_logit_softcapping", "final_logit_softcapping"}, {0, 1e6}, 0));
    cfg.tied = s.flag({"", "tie_word_embeddings"}, true);
    if (s.flag({"", "use_bidirectional_attention"}, false)) s.reject("bidirectional attention is not supported");
    if (s.flag({"", "attention_bias"}, false)) s.reject("Gemma 3 with attention_bias is not supported");
    TRY(s.status());
    return cfg;
}

Layer bind_layer(Binder& b, const Config& cfg, int i, float norm_offset) {
    const int64_t q_dim = int64_t{cfg.heads} * cfg.head_dim;
    const int64_t kv_dim = int64_t{cfg.kv_heads} * cfg.head_dim;
    const auto matrix = [&](WeightName name, int64_t rows, int64_t cols) { return b.matrix(i, name, rows, cols); };
    const auto norm = [&](WeightName name, int count) { return b.vector(i, name, count, norm_offset); };
    return {
        .attn_norm = norm({"attn_norm.weight", "input_layernorm.weight"}, cfg.dim),
        .q = matrix({"attn_q.weight", "self_attn.q_proj.weight"}, q_dim, cfg.dim),
        .k = matrix({"attn_k.weight", "self_attn.k_proj.weight"}, kv_dim, cfg.dim),
        .v = matrix({"attn_v.weight", "self_attn.v_proj.weight"}, kv_dim, cfg.dim),
        .q_norm = norm({"attn_q_norm.weight", "self_attn.q_norm.weight"}, cfg.head_dim),
        .k_norm = norm({"attn_k_norm.weight", "self_attn.k_norm.weight"}, cfg.head_dim),
        .o = matrix({"attn_output.weight", "self_attn.o_proj.weight"}, cfg.dim, q_dim),
        .post_attn_norm = norm({"post_attention_norm.weight", "post_attention_layernorm.weight"}, cfg.dim),
        .ffn_norm = norm({"ffn_norm.weight", "pre_feedforward_layernorm.weight"}, cfg.dim),
        .gate = matrix({"ffn_gate.weight", "mlp.gate_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .up = matrix({"ffn_up.weight", "mlp.up_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .down = matrix({"ffn_down.weight", "mlp.down_proj.weight"}, cfg.dim, cfg.ffn_dim),
        .post_ffn_norm = norm({"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}, cfg.dim),
    };
}

Result<Model> load(Settings s) {
    Config cfg = TRY(read_config(s));
    // transformers multiplies by 1 + weight; a GGUF file has the sum.
    const float norm_offset = s.is_gguf() ? 0.0F : 1.0F;
    Graph g;
    Binder b(s.checkpoint(), g);
    Gemma3 model;
    model.global_rope = make_rope(cfg.global_rope, cfg.head_dim, op::RopeLayout::half);
    model.local_rope = make_rope(cfg.local_rope, cfg.head_dim, op::RopeLayout::half);
    model.embedding = b.embedding(cfg.vocab, cfg.dim);
    model.head = {.norm = b.vector(kNoLayer, {"output_norm.weight", "norm.weight"}, cfg.dim, norm_offset),
                  .output = b.output(cfg.vocab, cfg.dim, cfg.tied),
                  .eps = cfg.eps,
                  .softcap = cfg.final_softcap};
    for (int i = 0; i < cfg.layers; ++i) model.layers.push_back(bind_layer(b, cfg, i, norm_offset));
    TRY(b.status());
    model.cfg = std::move(cfg);
    model.forward(g);
    return assemble(s, model.cfg, std::move(g), std::move(b));
}

Status write_settings(Settings s, format::GgufWriter& writer) {
    const Config cfg = TRY(read_config(s));
    TRY(check_writable(s, cfg.activation, op::Activation::gelu_tanh));
    if (cfg.local_rope.scaling != RopeSettings::Scaling::none) {
        return fail("{}: GGUF cannot say that the sliding layers' rope is scaled", s.checkpoint().name());
    }
    if (cfg.attention_softcap > 0) writer.set("gemma3.attn_logit_softcapping", cfg.attention_softcap);
    if (cfg.final_softcap > 0) writer.set("gemma3.final_logit_softcapping", cfg.final_softcap);
    write_dimensions(s, cfg, cfg.eps, writer);
    write_windows(s, cfg.windows, kUsualPeriod, writer);
    TRY(write_rope(s, cfg.global_rope, writer));
    writer.set("gemma3.rope.freq_base_swa", static_cast<float>(cfg.local_rope.base));
    const auto usual_scale = static_cast<float>(1 / std::sqrt(usual_query_scalar(cfg)));
    if (cfg.scale != usual_scale) writer.set("gemma3.attention.scale", cfg.scale);
    return Ok{};
}

}  // namespace

const Family& gemma3() {
    static const Family family{.name = "gemma3",
                               .architecture = "gemma3",
                               .architectures = {"gemma3"},
                               .model_types = {"gemma3_text", "gemma3", "Gemma3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load,
                               .write_settings = write_settings};
    return family;
}

}  // namespace tandem::models
