// Gemma 2 and 3: layers with a sliding window and now and then one that sees everything; norms before and after
// attention and feed-forward. Gemma 2 bends scores and logits, Gemma 3 norms every head's query and key and gives the
// sliding layers a rope of their own.
#include <fmt/format.h>

#include <cmath>

#include "models/decoder.h"
#include "models/families.h"
#include "models/rope.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

// What the two do differently.
struct Generation {
    HfDefaults sizes;
    int period = 0;              // of the layers, of which the last is global
    int head_dim_exception = 0;  // layers of the one model whose scores are scaled by dim / heads, not by its head_dim
    bool qk_norm = false;
    double attention_softcap = 0;  // where the file says nothing
    double final_softcap = 0;
};
const Generation kGemma2{.sizes = {.dim = 2304,
                                   .layers = 26,
                                   .heads = 8,
                                   .kv_heads = 4,
                                   .head_dim = 256,
                                   .ffn_dim = 9216,
                                   .context_length = 8192},
                         .period = 2,
                         .head_dim_exception = 46,
                         .attention_softcap = 50,
                         .final_softcap = 30};
const Generation kGemma3{.sizes = {.dim = 2304,
                                   .layers = 26,
                                   .heads = 8,
                                   .kv_heads = 4,
                                   .head_dim = 256,
                                   .ffn_dim = 9216,
                                   .context_length = 131072},
                         .period = 6,
                         .head_dim_exception = 62,
                         .qk_norm = true};

struct Config : Dimensions {
    float eps = 0.0F;
    bool qk_norm = false;
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
    Tensor q_norm;          // [head_dim], Gemma 3
    Tensor k_norm;          // [head_dim], Gemma 3
    Tensor o;               // [dim, heads * head_dim]
    Tensor post_attn_norm;  // [dim]
    Tensor ffn_norm;        // [dim]
    Tensor gate;            // [ffn_dim, dim]
    Tensor up;              // [ffn_dim, dim]
    Tensor down;            // [dim, ffn_dim]
    Tensor post_ffn_norm;   // [dim]
};

struct Gemma {
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

Tensor Gemma::attention(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];
    const int window = cfg.windows[i];
    const op::Rope& rope = window == 0 ? global_rope : local_rope;
    const int cache = g.cache(cfg.kv_heads, cfg.head_dim, window);
    Tensor q = g.linear(w.q, x);
    Tensor k = g.linear(w.k, x);
    if (cfg.qk_norm) {
        q = g.rms_norm(q, w.q_norm, cfg.eps);
        k = g.rms_norm(k, w.k_norm, cfg.eps);
    }
    const Tensor written = g.kv_write(g.rope(k, g.positions(), rope), g.linear(w.v, x), cache);
    const Tensor a = g.attention(g.rope(q, g.positions(), rope), written,
                                 {.cache = cache,
                                  .heads = cfg.heads,
                                  .kv_heads = cfg.kv_heads,
                                  .head_dim = cfg.head_dim,
                                  .scale = cfg.scale,
                                  .window = window,
                                  .softcap = cfg.attention_softcap});
    return g.linear(w.o, a);
}

Tensor Gemma::block(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];  // x: [tokens, dim]
    const Tensor a = attention(g, g.rms_norm(x, w.attn_norm, cfg.eps), i);
    x = g.add(x, g.rms_norm(a, w.post_attn_norm, cfg.eps));
    const Tensor h = g.rms_norm(x, w.ffn_norm, cfg.eps);
    const Tensor f = g.linear(w.down, g.glu(g.linear(w.gate, h), g.linear(w.up, h), cfg.activation));
    return g.add(x, g.rms_norm(f, w.post_ffn_norm, cfg.eps));
}

void Gemma::forward(Graph& g) const {
    Tensor x = g.embed(embedding, g.tokens(), std::sqrt(static_cast<float>(cfg.dim)));
    for (size_t i = 0; i < layers.size(); ++i) x = block(g, x, i);
    add_results(g, x, head);
}

// The 27B model of each, known by its layers, is the only one whose scores are not scaled by its head_dim.
int usual_query_scalar(const Generation& generation, const Dimensions& dims) {
    return dims.layers == generation.head_dim_exception ? dims.dim / dims.heads : dims.head_dim;
}

std::vector<int> read_windows(Settings& s, const Generation& generation, int layers) {
    if (s.is_gguf()) return read_gguf_windows(s, layers, generation.period);
    const int window = s.count({"", "sliding_window"}, kMaxContext, 4096);
    if (auto windows = read_layer_types(s, layers, window)) return *std::move(windows);
    const int period = s.count({"", "sliding_window_pattern"}, kMaxLayers,
                               s.count({"", "_sliding_window_pattern"}, kMaxLayers, generation.period));
    return periodic_windows(layers, period, window);
}

void read_ropes(Settings& s, const Generation& generation, Config& cfg) {
    if (&generation == &kGemma2) {
        cfg.global_rope = read_rope(s, cfg);
        cfg.local_rope = cfg.global_rope;
        return;
    }
    cfg.global_rope = read_rope(s, cfg, {.layer_type = "full_attention", .usual_base = 1e6});
    cfg.local_rope = read_rope(s, cfg,
                               {.gguf_base = "rope.freq_base_swa",
                                .hf_base = "rope_local_base_freq",
                                .layer_type = "sliding_attention",
                                .scaled = false,
                                .usual_base = 1e4});
}

// config.json says null where there is none.
float read_softcap(Settings& s, std::string_view name, double usual) {
    const Key key{name, name};
    return static_cast<float>(s.real(key, {0, 1e6}, s.is_there(key) ? 0 : usual));
}

Result<Config> read_config(Settings& s, const Generation& generation) {
    Config cfg;
    static_cast<Dimensions&>(cfg) = read_dimensions(s, generation.sizes);
    cfg.eps = read_eps(s);
    cfg.qk_norm = generation.qk_norm;
    cfg.windows = read_windows(s, generation, cfg.layers);
    read_ropes(s, generation, cfg);
    cfg.rope_dim = cfg.global_rope.dim;
    cfg.activation = read_activation(s, op::Activation::gelu_tanh);
    const double scalar =
        s.real({"", "query_pre_attn_scalar"}, {1e-6, 1e9}, s.is_gguf() ? usual_query_scalar(generation, cfg) : 256);
    cfg.scale = static_cast<float>(s.real({"attention.scale", ""}, {1e-6, 1e6}, 1 / std::sqrt(scalar)));
    cfg.attention_softcap = read_softcap(s, "attn_logit_softcapping", generation.attention_softcap);
    cfg.final_softcap = read_softcap(s, "final_logit_softcapping", generation.final_softcap);
    cfg.tied = s.flag({"", "tie_word_embeddings"}, true);
    if (s.flag({"", "use_bidirectional_attention"}, false)) s.reject("bidirectional attention is not supported");
    if (s.flag({"", "attention_bias"}, false)) s.reject("Gemma with attention_bias is not supported");
    TRY(s.status());
    return cfg;
}

Layer bind_layer(Binder& b, const Config& cfg, int i, float norm_offset) {
    const int64_t q_dim = int64_t{cfg.heads} * cfg.head_dim;
    const int64_t kv_dim = int64_t{cfg.kv_heads} * cfg.head_dim;
    const auto matrix = [&](WeightName name, int64_t rows, int64_t cols) { return b.matrix(i, name, rows, cols); };
    const auto norm = [&](WeightName name, int count) { return b.vector(i, name, count, norm_offset); };
    const auto head_norm = [&](WeightName name) { return cfg.qk_norm ? norm(name, cfg.head_dim) : Tensor{}; };
    return {
        .attn_norm = norm({"attn_norm.weight", "input_layernorm.weight"}, cfg.dim),
        .q = matrix({"attn_q.weight", "self_attn.q_proj.weight"}, q_dim, cfg.dim),
        .k = matrix({"attn_k.weight", "self_attn.k_proj.weight"}, kv_dim, cfg.dim),
        .v = matrix({"attn_v.weight", "self_attn.v_proj.weight"}, kv_dim, cfg.dim),
        .q_norm = head_norm({"attn_q_norm.weight", "self_attn.q_norm.weight"}),
        .k_norm = head_norm({"attn_k_norm.weight", "self_attn.k_norm.weight"}),
        .o = matrix({"attn_output.weight", "self_attn.o_proj.weight"}, cfg.dim, q_dim),
        .post_attn_norm = norm({"post_attention_norm.weight", "post_attention_layernorm.weight"}, cfg.dim),
        .ffn_norm = norm({"ffn_norm.weight", "pre_feedforward_layernorm.weight"}, cfg.dim),
        .gate = matrix({"ffn_gate.weight", "mlp.gate_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .up = matrix({"ffn_up.weight", "mlp.up_proj.weight"}, cfg.ffn_dim, cfg.dim),
        .down = matrix({"ffn_down.weight", "mlp.down_proj.weight"}, cfg.dim, cfg.ffn_dim),
        .post_ffn_norm = norm({"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}, cfg.dim),
    };
}

Result<Model> load_gemma(Settings s, const Generation& generation) {
    Config cfg = TRY(read_config(s, generation));
    // transformers multiplies by 1 + weight; a GGUF file has the sum.
    const float norm_offset = s.is_gguf() ? 0.0F : 1.0F;
    Graph g;
    Binder b(s.checkpoint(), g);
    Gemma model;
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

Status write_gemma(Settings s, const Generation& generation, format::GgufWriter& writer) {
    const Config cfg = TRY(read_config(s, generation));
    const auto set = [&](std::string_view key, float value) {
        writer.set(fmt::format("{}.{}", s.architecture(), key), value);
    };
    TRY(check_writable(s, cfg.activation, op::Activation::gelu_tanh));
    if (cfg.local_rope.scaling != RopeSettings::Scaling::none) {
        return fail("{}: GGUF cannot say that the sliding layers' rope is scaled", s.checkpoint().name());
    }
    if (cfg.attention_softcap > 0) set("attn_logit_softcapping", cfg.attention_softcap);
    if (cfg.final_softcap > 0) set("final_logit_softcapping", cfg.final_softcap);
    write_dimensions(s, cfg, cfg.eps, writer);
    write_windows(s, cfg.windows, generation.period, writer);
    TRY(write_rope(s, cfg.global_rope, writer));
    if (&generation == &kGemma3) set("rope.freq_base_swa", static_cast<float>(cfg.local_rope.base));
    const auto usual_scale = static_cast<float>(1 / std::sqrt(usual_query_scalar(generation, cfg)));
    if (cfg.scale != usual_scale) set("attention.scale", cfg.scale);
    return Ok{};
}

template <const Generation& generation>
Result<Model> load(Settings s) {
    return load_gemma(std::move(s), generation);
}
template <const Generation& generation>
Status write_settings(Settings s, format::GgufWriter& writer) {
    return write_gemma(std::move(s), generation, writer);
}

}  // namespace

const Family& gemma2() {
    static const Family family{.name = "gemma2",
                               .architecture = "gemma2",
                               .architectures = {"gemma2"},
                               .model_types = {"gemma2", "Gemma2ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load<kGemma2>,
                               .write_settings = write_settings<kGemma2>};
    return family;
}

const Family& gemma3() {
    static const Family family{.name = "gemma3",
                               .architecture = "gemma3",
                               .architectures = {"gemma3"},
                               .model_types = {"gemma3_text", "gemma3", "Gemma3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load<kGemma3>,
                               .write_settings = write_settings<kGemma3>};
    return family;
}

}  // namespace tandem::models
