// Gemma 4: sliding and global layers with heads of different sizes; values normed like keys, and in the global layers
// of the larger models the keys themselves; the smaller ones (E) add to every layer an embedding of the token made for
// it alone, and let the last layers attend to the keys and values of earlier ones; the mixture adds experts, with norms
// of their own, to the feed-forward part of every layer.
#include <fmt/format.h>

#include <cmath>

#include "format/quant.h"
#include "models/decoder.h"
#include "models/experts.h"
#include "models/families.h"
#include "models/rope.h"

namespace tandem::models {

namespace {

using graph::Graph;
using graph::Tensor;

constexpr int kUsualPeriod = 6;
constexpr WeightName kLayerScale{"layer_output_scale.weight", "layer_scalar"};

struct LayerConfig {
    int window = 0;  // 0: global
    int head_dim = 0;
    int kv_heads = 0;
    int ffn_dim = 0;
    bool values_are_keys = false;  // before norm and rope
    int source = 0;                // the layer whose keys and values it attends to, its own number for most
};

struct Config : Dimensions {
    float eps = 0.0F;
    std::vector<LayerConfig> each;
    RopeSettings global_rope;
    RopeSettings local_rope;
    op::Activation activation = op::Activation::gelu_tanh;
    float final_softcap = 0.0F;
    int shared_layers = 0;   // at the end, without keys and values of their own
    int token_part_dim = 0;  // of the embedding made for each layer; 0: there is none
    std::optional<ExpertConfig> experts;
    bool tied = true;
};

// The experts of a layer, beside its feed-forward part.
struct Mixture {
    Tensor router_norm;  // [dim]
    Tensor norm;         // [dim], of what the experts read
    Tensor post_norm;    // [dim]
    Tensor dense_norm;   // [dim], of what the feed-forward part made
    ExpertLayer experts;
};

struct Layer {
    Tensor attn_norm;            // [dim]
    Tensor q, q_norm;            // [heads * head_dim, dim], [head_dim]
    Tensor k = {}, k_norm = {};  // [kv_heads * head_dim, dim], [head_dim]; none where they are another layer's
    Tensor v = {};               // [kv_heads * head_dim, dim]; none where they are the keys
    Tensor o;                    // [dim, heads * head_dim]
    Tensor post_attn_norm;       // [dim]
    Tensor ffn_norm;             // [dim]
    Tensor gate, up;             // [ffn_dim, dim]
    Tensor down;                 // [dim, ffn_dim]
    Tensor post_ffn_norm;        // [dim]
    Mixture mixture = {};
    Tensor part_gate = {};       // [token_part_dim, dim]
    Tensor part_out = {};        // [dim, token_part_dim]
    Tensor post_part_norm = {};  // [dim]
    float scale = 1.0F;
};

// The embeddings of a token for each of the layers, side by side.
struct TokenParts {
    Tensor table;       // [vocab, layers * token_part_dim]
    Tensor projection;  // [layers * token_part_dim, dim]
    Tensor norm;        // [token_part_dim]
};

struct Gemma4 {
    // What a layer has written, for those that attend to it.
    struct Kept {
        int cache = 0;
        Tensor written;
    };

    Config cfg;
    op::Rope global_rope;
    op::Rope local_rope;
    Tensor embedding;  // [vocab, dim]
    TokenParts parts;
    Head head;
    std::vector<Layer> layers;

    Kept keep(Graph& g, Tensor x, size_t i) const;
    Tensor attention(Graph& g, Tensor x, size_t i, std::vector<Kept>& kept) const;
    Tensor feed_forward(Graph& g, Tensor x, size_t i) const;
    Tensor token_parts(Graph& g, Tensor x) const;
    Tensor add_part(Graph& g, Tensor x, Tensor all_parts, size_t i) const;
    void forward(Graph& g) const;

    const op::Rope& rope(size_t i) const { return cfg.each[i].window == 0 ? global_rope : local_rope; }
};

Gemma4::Kept Gemma4::keep(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];
    const LayerConfig& c = cfg.each[i];
    const int cache = g.cache(c.kv_heads, c.head_dim, c.window);
    const Tensor k = g.linear(w.k, x);
    const Tensor v = g.bare_norm(c.values_are_keys ? k : g.linear(w.v, x), c.head_dim, cfg.eps);
    const Tensor turned = g.rope(g.rms_norm(k, w.k_norm, cfg.eps), g.positions(), rope(i));
    return {cache, g.kv_write(turned, v, cache)};
}

Tensor Gemma4::attention(Graph& g, Tensor x, size_t i, std::vector<Kept>& kept) const {
    const Layer& w = layers[i];
    const LayerConfig& c = cfg.each[i];
    const auto source = static_cast<size_t>(c.source);
    kept.push_back(source == i ? keep(g, x, i) : kept[source]);
    const Tensor q = g.rope(g.rms_norm(g.linear(w.q, x), w.q_norm, cfg.eps), g.positions(), rope(i));
    const Tensor a = g.attention(q, kept[i].written,
                                 {.cache = kept[i].cache,
                                  .heads = cfg.heads,
                                  .kv_heads = c.kv_heads,
                                  .head_dim = c.head_dim,
                                  .scale = 1.0F,
                                  .window = c.window});
    return g.linear(w.o, a);
}

Tensor Gemma4::feed_forward(Graph& g, Tensor x, size_t i) const {
    const Layer& w = layers[i];
    const Tensor h = g.rms_norm(x, w.ffn_norm, cfg.eps);
    const Tensor f = g.linear(w.down, g.glu(g.linear(w.gate, h), g.linear(w.up, h), cfg.activation));
    if (!cfg.experts) return f;
    const Mixture& m = w.mixture;
    const Tensor mixed = apply_experts(g, *cfg.experts, m.experts, g.rms_norm(x, m.norm, cfg.eps),
                                       g.rms_norm(x, m.router_norm, cfg.eps));
    return g.add(g.rms_norm(f, m.dense_norm, cfg.eps), g.rms_norm(mixed, m.post_norm, cfg.eps));
}

// Half of it looked up, half computed from the token's row.
Tensor Gemma4::token_parts(Graph& g, Tensor x) const {
    const auto width = static_cast<float>(cfg.token_part_dim);
    const Tensor looked_up = g.embed(parts.table, g.tokens(), std::sqrt(width));
    const Tensor projected = g.scale(g.linear(parts.projection, x), 1 / std::sqrt(static_cast<float>(cfg.dim)));
    return g.scale(g.add(looked_up, g.rms_norm(projected, parts.norm, cfg.eps)), 1 / std::sqrt(2.0F));
}

Tensor Gemma4::add_part(Graph& g, Tensor x, Tensor all_parts, size_t i) const {
    const Layer& w = layers[i];
    const Tensor part = g.columns(all_parts, static_cast<int64_t>(i) * cfg.token_part_dim, cfg.token_part_dim);
    const Tensor gated = g.glu(g.linear(w.part_gate, x), part, cfg.activation);
    return g.add(x, g.rms_norm(g.linear(w.part_out, gated), w.post_part_norm, cfg.eps));
}

void Gemma4::forward(Graph& g) const {
    Tensor x = g.embed(embedding, g.tokens(), std::sqrt(static_cast<float>(cfg.dim)));  // x: [tokens, dim]
    const Tensor all_parts = cfg.token_part_dim > 0 ? token_parts(g, x) : Tensor{};
    std::vector<Kept> kept;
    for (size_t i = 0; i < layers.size(); ++i) {
        const Layer& w = layers[i];
        const Tensor a = attention(g, g.rms_norm(x, w.attn_norm, cfg.eps), i, kept);
        x = g.add(x, g.rms_norm(a, w.post_attn_norm, cfg.eps));
        x = g.add(x, g.rms_norm(feed_forward(g, x, i), w.post_ffn_norm, cfg.eps));
        if (all_parts) x = add_part(g, x, all_parts, i);
        x = g.scale(x, w.scale);
    }
    add_results(g, x, head);
}

std::vector<int> read_windows(Settings& s, int layers) {
    if (s.is_gguf()) return read_gguf_windows(s, layers, kUsualPeriod);
    const int window = s.count({"", "sliding_window"}, kMaxContext, 512);
    if (auto windows = read_layer_types(s, layers, window)) return *std::move(windows);
    std::vector<int> windows = periodic_windows(layers, kUsualPeriod, window);
    windows.back() = 0;
    return windows;
}

// config.json gives sizes of single layers under their numbers, or, before that, those of all global ones.
int layer_size(Settings& s, int i, std::string_view name, int limit, int usual) {
    return s.count({"", fmt::format("per_layer_config.{}.{}", i, name)}, limit, usual);
}

void read_hf_layers(Settings& s, Config& cfg) {
    const bool values_are_keys = s.flag({"", "attention_k_eq_v"}, false);
    const int global_head_dim = s.count({"", "global_head_dim"}, kMaxHeadDim, 512);
    const int global_kv_heads = s.count({"", "num_global_key_value_heads"}, kMaxHeads, cfg.kv_heads);
    const bool double_wide = s.flag({"", "use_double_wide_mlp"}, false);
    for (int i = 0; i < cfg.layers; ++i) {
        LayerConfig& layer = cfg.each[static_cast<size_t>(i)];
        const bool global = layer.window == 0;
        layer.head_dim = layer_size(s, i, "head_dim", kMaxHeadDim, global ? global_head_dim : cfg.head_dim);
        layer.kv_heads = layer_size(s, i, "num_key_value_heads", kMaxHeads,
                                    global && values_are_keys ? global_kv_heads : cfg.kv_heads);
        layer.values_are_keys = global && values_are_keys;
        layer.ffn_dim = double_wide && i >= cfg.layers - cfg.shared_layers ? 2 * cfg.ffn_dim : cfg.ffn_dim;
    }
}

void read_gguf_layers(Settings& s, Config& cfg) {
    const int sliding_head_dim = s.count({"attention.key_length_swa", ""}, kMaxHeadDim, cfg.head_dim);
    const int sliding_values = s.count({"attention.value_length_swa", ""}, kMaxHeadDim, sliding_head_dim);
    if (sliding_values != sliding_head_dim) {
        s.reject(fmt::format("keys of {} and values of {} elements per head: they must be equal", sliding_head_dim,
                             sliding_values));
    }
    const auto kv_heads = read_per_layer(s, {"attention.head_count_kv", ""}, kMaxHeads, cfg.layers, cfg.heads);
    const auto ffn_dims = read_per_layer(s, {"feed_forward_length", ""}, kMaxFfnDim, cfg.layers, {});
    for (size_t i = 0; i < cfg.each.size(); ++i) {
        LayerConfig& layer = cfg.each[i];
        layer.head_dim = layer.window == 0 ? cfg.head_dim : sliding_head_dim;
        layer.kv_heads = kv_heads[i];
        layer.ffn_dim = ffn_dims[i];
        const auto has = [&](std::string_view name) {
            return find_tensor(s.checkpoint(), static_cast<int>(i), {name, ""}) != nullptr;
        };
        layer.values_are_keys = has("attn_k.weight") && !has("attn_v.weight");
    }
}

// A layer without keys and values of its own takes those of the last of its kind that has them.
void find_sources(Settings& s, Config& cfg) {
    const int with_keys = cfg.layers - cfg.shared_layers;
    for (int i = 0; i < cfg.layers; ++i) {
        LayerConfig& layer = cfg.each[static_cast<size_t>(i)];
        layer.source = std::min(i, with_keys - 1);
        if (i < with_keys) continue;
        const auto source = [&]() -> const LayerConfig& { return cfg.each[static_cast<size_t>(layer.source)]; };
        while (layer.source > 0 && source().window != layer.window) --layer.source;
        if (source().window != layer.window || source().head_dim != layer.head_dim ||
            source().kv_heads != layer.kv_heads) {
            s.reject(fmt::format("layer {} has no keys of its own and there is no layer like it that has", i));
        }
    }
}

// The size of a head and the key-value heads of the kind of layers that rope is read for.
int head_dim_of(const Config& cfg, bool global) {
    for (const LayerConfig& layer : cfg.each) {
        if ((layer.window == 0) == global) return layer.head_dim;
    }
    return cfg.head_dim;
}

void read_ropes(Settings& s, Config& cfg) {
    Dimensions dims = cfg;
    dims.head_dim = head_dim_of(cfg, true);
    cfg.global_rope = read_rope(s, dims, {.layer_type = "full_attention", .usual_base = 1e6});
    dims.head_dim = head_dim_of(cfg, false);
    cfg.local_rope = read_rope(s, dims,
                               {.gguf_base = "rope.freq_base_swa",
                                .hf_base = "rope_local_base_freq",
                                .gguf_dim = "rope.dimension_count_swa",
                                .layer_type = "sliding_attention",
                                .scaled = false,
                                .usual_base = 1e4});
    cfg.rope_dim = cfg.local_rope.dim;
    for (const LayerConfig& layer : cfg.each) {
        const int expected = head_dim_of(cfg, layer.window == 0);
        if (layer.head_dim != expected) {
            s.reject(fmt::format("layers of one kind have heads of {} and {} elements", expected, layer.head_dim));
        }
        if (layer.kv_heads < 1 || cfg.heads % layer.kv_heads != 0) {
            s.reject(fmt::format("{} heads are not a multiple of {} key-value heads", cfg.heads, layer.kv_heads));
        }
    }
}

std::optional<ExpertConfig> read_mixture(Settings& s, const Config& cfg) {
    if (s.is_gguf() ? !has_experts(s) : !s.flag({"", "enable_moe_block"}, false)) return {};
    ExpertConfig experts = read_experts(s, {}, cfg.ffn_dim);
    experts.route.normalize = true;
    experts.activation = cfg.activation;
    experts.names = {
        .router = "router.proj", .gate_up = "experts.gate_up_proj", .all_down = "experts.down_proj", .shared = {}};
    return experts;
}

Result<Config> read_config(Settings& s) {
    Config cfg;
    static_cast<Dimensions&>(cfg) = read_dimensions(s, {.dim = 2304,
                                                        .layers = 30,
                                                        .heads = 8,
                                                        .kv_heads = 4,
                                                        .head_dim = 256,
                                                        .ffn_dim = 9216,
                                                        .context_length = 131072,
                                                        .per_layer = true,
                                                        .experts = true});
    cfg.eps = read_eps(s);
    cfg.each.resize(static_cast<size_t>(cfg.layers));
    const std::vector<int> windows = read_windows(s, cfg.layers);
    for (size_t i = 0; i < windows.size(); ++i) cfg.each[i].window = windows[i];
    cfg.shared_layers =
        static_cast<int>(s.real({"attention.shared_kv_layers", "num_kv_shared_layers"}, {0, cfg.layers - 1.0}, 0));
    cfg.token_part_dim =
        static_cast<int>(s.real({"embedding_length_per_layer_input", "hidden_size_per_layer_input"}, {0, kMaxDim}, 0));
    if (s.is_gguf()) {
        read_gguf_layers(s, cfg);
    } else {
        read_hf_layers(s, cfg);
    }
    find_sources(s, cfg);
    read_ropes(s, cfg);
    cfg.head_dim = cfg.each.front().head_dim;
    cfg.kv_heads = cfg.each.front().kv_heads;
    cfg.activation = read_activation(s, op::Activation::gelu_tanh);
    cfg.final_softcap = static_cast<float>(s.real({"final_logit_softcapping", "final_logit_softcapping"}, {0, 1e6}, 0));
    cfg.tied = s.flag({"", "tie_word_embeddings"}, true);
    cfg.experts = read_mixture(s, cfg);
    if (s.flag({"", "attention_bias"}, false)) s.reject("Gemma 4 with attention_bias is not supported");
    TRY(s.status());
    return cfg;
}

// The router's logits are of the normed row divided by the root of its size. What each expert makes counts as much as
// a number says, which lies with the matrices in a GGUF file.
Mixture bind_mixture(Binder& b, Graph& g, const Config& cfg, int i) {
    const auto norm = [&](WeightName name) { return b.vector(i, name, cfg.dim); };
    Mixture m{.router_norm = norm({"ffn_gate_inp.scale", "router.scale"}),
              .norm = norm({"pre_ffw_norm_2.weight", "pre_feedforward_layernorm_2.weight"}),
              .post_norm = norm({"post_ffw_norm_2.weight", "post_feedforward_layernorm_2.weight"}),
              .dense_norm = norm({"post_ffw_norm_1.weight", "post_feedforward_layernorm_1.weight"}),
              .experts = bind_expert_layer(b, i, *cfg.experts, cfg.dim)};
    g.set_factor(m.experts.router, 1 / std::sqrt(static_cast<float>(cfg.dim)));
    const WeightName scale{"ffn_down_exps.scale", "router.per_expert_scale"};
    if (!b.is_gguf()) m.experts.down.scale = b.vector(i, scale, cfg.experts->count);
    return m;
}

Layer bind_layer(Binder& b, Graph& g, const Config& cfg, int i) {
    const LayerConfig& c = cfg.each[static_cast<size_t>(i)];
    const int64_t q_dim = int64_t{cfg.heads} * c.head_dim;
    const int64_t kv_dim = int64_t{c.kv_heads} * c.head_dim;
    const auto matrix = [&](WeightName name, int64_t rows, int64_t cols) { return b.matrix(i, name, rows, cols); };
    const auto norm = [&](WeightName name, int count) { return b.vector(i, name, count); };
    Layer layer{
        .attn_norm = norm({"attn_norm.weight", "input_layernorm.weight"}, cfg.dim),
        .q = matrix({"attn_q.weight", "self_attn.q_proj.weight"}, q_dim, cfg.dim),
        .q_norm = norm({"attn_q_norm.weight", "self_attn.q_norm.weight"}, c.head_dim),
        .o = matrix({"attn_output.weight", "self_attn.o_proj.weight"}, cfg.dim, q_dim),
        .post_attn_norm = norm({"post_attention_norm.weight", "post_attention_layernorm.weight"}, cfg.dim),
        .ffn_norm = norm({"ffn_norm.weight", "pre_feedforward_layernorm.weight"}, cfg.dim),
        .gate = matrix({"ffn_gate.weight", "mlp.gate_proj.weight"}, c.ffn_dim, cfg.dim),
        .up = matrix({"ffn_up.weight", "mlp.up_proj.weight"}, c.ffn_dim, cfg.dim),
        .down = matrix({"ffn_down.weight", "mlp.down_proj.weight"}, cfg.dim, c.ffn_dim),
        .post_ffn_norm = norm({"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}, cfg.dim),
        .scale = b.has(i, kLayerScale) ? b.scalar(i, kLayerScale) : 1.0F,
    };
    if (c.source == i) {
        layer.k = matrix({"attn_k.weight", "self_attn.k_proj.weight"}, kv_dim, cfg.dim);
        layer.k_norm = norm({"attn_k_norm.weight", "self_attn.k_norm.weight"}, c.head_dim);
        if (!c.values_are_keys) layer.v = matrix({"attn_v.weight", "self_attn.v_proj.weight"}, kv_dim, cfg.dim);
    }
    if (cfg.experts) layer.mixture = bind_mixture(b, g, cfg, i);
    if (cfg.token_part_dim == 0) return layer;
    layer.part_gate = matrix({"inp_gate.weight", "per_layer_input_gate.weight"}, cfg.token_part_dim, cfg.dim);
    layer.part_out = matrix({"proj.weight", "per_layer_projection.weight"}, cfg.dim, cfg.token_part_dim);
    layer.post_part_norm = norm({"post_norm.weight", "post_per_layer_input_norm.weight"}, cfg.dim);
    return layer;
}

TokenParts bind_parts(Binder& b, const Config& cfg) {
    if (cfg.token_part_dim == 0) return {};
    const int64_t width = int64_t{cfg.layers} * cfg.token_part_dim;
    const WeightName projection{"per_layer_model_proj.weight", "per_layer_model_projection.weight"};
    return {
        .table = b.matrix(kNoLayer, {"per_layer_token_embd.weight", "embed_tokens_per_layer.weight"}, cfg.vocab, width),
        .projection = b.matrix(kNoLayer, projection, width, cfg.dim),
        .norm =
            b.vector(kNoLayer, {"per_layer_proj_norm.weight", "per_layer_projection_norm.weight"}, cfg.token_part_dim),
    };
}

Result<Model> load(Settings s) {
    Config cfg = TRY(read_config(s));
    Graph g;
    Binder b(s.checkpoint(), g);
    Gemma4 model;
    model.global_rope = make_rope(cfg.global_rope, head_dim_of(cfg, true), op::RopeLayout::half);
    model.local_rope = make_rope(cfg.local_rope, head_dim_of(cfg, false), op::RopeLayout::half);
    model.embedding = b.embedding(cfg.vocab, cfg.dim);
    model.parts = bind_parts(b, cfg);
    model.head = {.norm = b.vector(kNoLayer, {"output_norm.weight", "norm.weight"}, cfg.dim),
                  .output = b.output(cfg.vocab, cfg.dim, cfg.tied),
                  .eps = cfg.eps,
                  .softcap = cfg.final_softcap};
    for (int i = 0; i < cfg.layers; ++i) model.layers.push_back(bind_layer(b, g, cfg, i));
    TRY(b.status());
    model.cfg = std::move(cfg);
    model.forward(g);
    return assemble(s, model.cfg, std::move(g), std::move(b));
}

// The factor of each layer is part of the Program, so it is no weight that export would find.
void write_scales(const Settings& s, int layers, format::GgufWriter& writer) {
    for (int i = 0; i < layers; ++i) {
        const format::TensorRecord* tensor = find_tensor(s.checkpoint(), i, kLayerScale);
        if (tensor == nullptr) continue;
        float value = 0.0F;
        format::decode_row(tensor->dtype, tensor->data.data(), &value, 1);
        writer.add({.name = fmt::format("blk.{}.{}", i, kLayerScale.gguf),
                    .dtype = DType::f32,
                    .shape = {1},
                    .fill = [value](uint64_t first, std::span<std::byte> out) -> Status {
                        std::ranges::copy(std::as_bytes(std::span(&value, 1)).subspan(first, out.size()), out.begin());
                        return Ok{};
                    }});
    }
}

void write_layers(const Settings& s, const Config& cfg, format::GgufWriter& writer) {
    const auto key = [&](std::string_view name) { return fmt::format("{}.{}", s.architecture(), name); };
    std::vector<int32_t> kv_heads;
    std::vector<int32_t> ffn_dims;
    std::vector<int> windows;
    for (const LayerConfig& layer : cfg.each) {
        kv_heads.push_back(layer.kv_heads);
        ffn_dims.push_back(layer.ffn_dim);
        windows.push_back(layer.window);
    }
    writer.set(key("attention.head_count_kv"), std::span<const int32_t>(kv_heads));
    writer.set(key("feed_forward_length"), std::span<const int32_t>(ffn_dims));
    const auto global = static_cast<uint32_t>(head_dim_of(cfg, true));
    const auto local = static_cast<uint32_t>(head_dim_of(cfg, false));
    writer.set(key("attention.key_length"), global);
    writer.set(key("attention.value_length"), global);
    writer.set(key("attention.key_length_swa"), local);
    writer.set(key("attention.value_length_swa"), local);
    write_window_list(s, windows, writer);
}

Status write_settings(Settings s, format::GgufWriter& writer) {
    const Config cfg = TRY(read_config(s));
    TRY(check_writable(s, cfg.activation, op::Activation::gelu_tanh));
    const auto key = [&](std::string_view name) { return fmt::format("{}.{}", s.architecture(), name); };
    write_dimensions(s, cfg, cfg.eps, writer);
    write_layers(s, cfg, writer);
    TRY(write_rope(s, cfg.global_rope, writer));
    writer.set(key("rope.freq_base_swa"), static_cast<float>(cfg.local_rope.base));
    writer.set(key("rope.dimension_count_swa"), static_cast<uint32_t>(cfg.local_rope.dim));
    writer.set(key("attention.shared_kv_layers"), static_cast<uint32_t>(cfg.shared_layers));
    writer.set(key("embedding_length_per_layer_input"), static_cast<uint32_t>(cfg.token_part_dim));
    if (cfg.final_softcap > 0) writer.set(key("final_logit_softcapping"), cfg.final_softcap);
    if (cfg.experts) write_experts(s, *cfg.experts, writer);
    write_scales(s, cfg.layers, writer);
    return Ok{};
}

}  // namespace

const Family& gemma4() {
    static const Family family{
        .name = "gemma4",
        .architecture = "gemma4",
        .architectures = {"gemma4"},
        .model_types = {"gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified", "Gemma4ForCausalLM"},
        .gguf_rope = op::RopeLayout::half,
        .load = load,
        .write_settings = write_settings};
    return family;
}

}  // namespace tandem::models
