#include "models/decoder.h"

#include <fmt/format.h>

#include <algorithm>

namespace tandem::models {

namespace {

// Rows of the embedding, whatever the tokenizer says.
int read_vocab(Settings& s) {
    const format::TensorRecord* table = find_tensor(s.checkpoint(), kNoLayer, kEmbedding);
    if (table == nullptr) {
        s.reject("the embedding of the tokens is missing (token_embd.weight or model.embed_tokens.weight)");
        return 1;
    }
    if (table->shape.size() != 2 || table->shape[0] < 1 || table->shape[0] > kMaxVocab) {
        s.reject(fmt::format("tensor '{}' is no matrix of 1 to {} rows", table->name, kMaxVocab));
        return 1;
    }
    const int rows = static_cast<int>(table->shape[0]);
    const int said = s.count({"", "vocab_size"}, kMaxVocab, rows);
    if (said != rows) s.reject(fmt::format("'vocab_size' is {} but tensor '{}' has {} rows", said, table->name, rows));
    return rows;
}

bool is_periodic(const std::vector<int>& windows, int period) {
    for (size_t i = 0; i < windows.size(); ++i) {
        const bool sliding = period == 0 || (i + 1) % static_cast<size_t>(period) != 0;
        if ((windows[i] != 0) != sliding) return false;
    }
    return true;
}

}  // namespace

std::vector<int> read_per_layer(Settings& s, const Key& key, int limit, int layers, std::optional<int> fallback) {
    const auto count = static_cast<size_t>(layers);
    if (!s.is_list(key)) return std::vector<int>(count, s.count(key, limit, fallback));
    const std::vector<double> list = s.reals(key, {1, static_cast<double>(limit)});
    if (list.size() != count) {
        s.reject(
            fmt::format("'{}' has {} entries for {} layers", s.is_gguf() ? key.gguf : key.hf, list.size(), layers));
        return std::vector<int>(count, 1);
    }
    return {list.begin(), list.end()};
}

Dimensions read_dimensions(Settings& s, const HfDefaults& d) {
    const bool hf = !s.is_gguf();
    const auto fallback = [&](std::optional<int> value) { return hf ? value : std::nullopt; };
    Dimensions dims;
    dims.dim = s.count({"embedding_length", "hidden_size"}, kMaxDim, fallback(d.dim));
    dims.layers = s.count({"block_count", "num_hidden_layers"}, kMaxLayers, fallback(d.layers));
    dims.heads = s.count({"attention.head_count", "num_attention_heads"}, kMaxHeads, fallback(d.heads));
    const auto of_layers = [&](const Key& key, int limit, std::optional<int> usual) {
        return d.per_layer ? read_per_layer(s, key, limit, dims.layers, usual).front() : s.count(key, limit, usual);
    };
    dims.kv_heads = of_layers({"attention.head_count_kv", "num_key_value_heads"}, kMaxHeads,
                              hf && d.kv_heads ? *d.kv_heads : dims.heads);
    dims.ffn_dim = of_layers({"feed_forward_length", "intermediate_size"}, kMaxFfnDim, fallback(d.ffn_dim));
    dims.context_length =
        s.count({"context_length", "max_position_embeddings"}, kMaxContext, fallback(d.context_length));
    const int even_share = std::max(1, dims.dim / dims.heads);
    dims.head_dim = s.count({"attention.key_length", "head_dim"}, kMaxHeadDim,
                            hf && d.head_dim ? *d.head_dim : std::min(even_share, kMaxHeadDim));
    dims.vocab = read_vocab(s);

    const int value_length = s.count({"attention.value_length", ""}, kMaxHeadDim, dims.head_dim);
    if (value_length != dims.head_dim) {
        s.reject(fmt::format("keys of {} and values of {} elements per head: they must be equal", dims.head_dim,
                             value_length));
    }
    if (dims.heads % dims.kv_heads != 0) {
        s.reject(fmt::format("{} heads are not a multiple of {} key-value heads", dims.heads, dims.kv_heads));
    }
    if (dims.head_dim % 2 != 0) s.reject(fmt::format("a head of {} elements is odd", dims.head_dim));
    if (!d.experts && s.real({"expert_count", "num_local_experts"}, {0, 1e6}, 0) > 0)
        s.reject("mixtures of experts of this family are not supported");
    return dims;
}

float read_eps(Settings& s, double usual) {
    const std::optional<double> fallback = s.is_gguf() ? std::nullopt : std::optional(usual);
    return static_cast<float>(s.real({"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, {0, 1}, fallback));
}

op::Activation read_activation(Settings& s, op::Activation usual) {
    const std::string name = s.text({"", "hidden_activation"}, s.text({"", "hidden_act"}, ""));
    if (name.empty()) return usual;
    if (name == "silu" || name == "swish") return op::Activation::silu;
    if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast") return op::Activation::gelu_tanh;
    if (name == "gelu") return op::Activation::gelu_erf;
    s.reject(fmt::format("the activation '{}' is not supported (supported: silu, gelu, gelu_pytorch_tanh)", name));
    return usual;
}

std::vector<int> periodic_windows(int layers, int period, int window) {
    std::vector<int> windows(static_cast<size_t>(layers), 0);
    for (int i = 0; i < layers; ++i) {
        if (period == 0 || (i + 1) % period != 0) windows[static_cast<size_t>(i)] = window;
    }
    return windows;
}

std::vector<int> read_gguf_windows(Settings& s, int layers, int usual_period) {
    const Key window_key{"attention.sliding_window", ""};
    const Key pattern_key{"attention.sliding_window_pattern", ""};
    std::vector<int> windows(static_cast<size_t>(layers), 0);  // 0: everything is seen
    if (s.real(window_key, {0, kMaxContext}, 0) == 0) return windows;
    const int window = s.count(window_key, kMaxContext);
    if (!s.is_list(pattern_key)) {
        return periodic_windows(layers, static_cast<int>(s.real(pattern_key, {0, kMaxLayers}, usual_period)), window);
    }
    const std::vector<bool> sliding = s.flags(pattern_key.gguf);
    if (sliding.size() < windows.size()) {
        s.reject(fmt::format("the pattern of windows has {} entries for {} layers", sliding.size(), layers));
        return windows;
    }
    for (size_t i = 0; i < windows.size(); ++i) windows[i] = sliding[i] ? window : 0;
    return windows;
}

std::optional<std::vector<int>> read_layer_types(Settings& s, int layers, int window) {
    const Key key{"", "layer_types"};
    if (!s.has_value(key)) return std::nullopt;
    std::vector<int> windows(static_cast<size_t>(layers), 0);
    const std::vector<std::string> types = s.texts(key.hf);
    if (types.size() != windows.size()) {
        s.reject(fmt::format("'layer_types' has {} entries for {} layers", types.size(), layers));
        return windows;
    }
    for (size_t i = 0; i < types.size(); ++i) {
        if (types[i] == "sliding_attention") {
            windows[i] = window;
        } else if (types[i] != "full_attention") {
            s.reject(fmt::format("layer {} is of the type '{}', which is not supported", i, types[i]));
        }
    }
    return windows;
}

void write_dimensions(const Settings& s, const Dimensions& dims, float eps, format::GgufWriter& writer) {
    const auto set = [&](std::string_view key, auto value) {
        writer.set(fmt::format("{}.{}", s.architecture(), key), value);
    };
    set("context_length", static_cast<uint32_t>(dims.context_length));
    set("embedding_length", static_cast<uint32_t>(dims.dim));
    set("block_count", static_cast<uint32_t>(dims.layers));
    set("feed_forward_length", static_cast<uint32_t>(dims.ffn_dim));
    set("attention.head_count", static_cast<uint32_t>(dims.heads));
    set("attention.head_count_kv", static_cast<uint32_t>(dims.kv_heads));
    set("attention.key_length", static_cast<uint32_t>(dims.head_dim));
    set("attention.value_length", static_cast<uint32_t>(dims.head_dim));
    set("attention.layer_norm_rms_epsilon", eps);
    set("vocab_size", static_cast<uint32_t>(dims.vocab));
}

void write_windows(const Settings& s, const std::vector<int>& windows, int usual_period, format::GgufWriter& writer) {
    const int window = *std::max_element(windows.begin(), windows.end());
    if (window == 0) return;
    writer.set(fmt::format("{}.attention.sliding_window", s.architecture()), static_cast<uint32_t>(window));
    if (is_periodic(windows, usual_period)) return;
    const std::string key = fmt::format("{}.attention.sliding_window_pattern", s.architecture());
    for (int period = 0; period <= static_cast<int>(windows.size()); ++period) {
        if (!is_periodic(windows, period)) continue;
        writer.set(key, static_cast<uint32_t>(period));
        return;
    }
    write_window_list(s, windows, writer);
}

void write_window_list(const Settings& s, const std::vector<int>& windows, format::GgufWriter& writer) {
    const int window = *std::max_element(windows.begin(), windows.end());
    writer.set(fmt::format("{}.attention.sliding_window", s.architecture()), static_cast<uint32_t>(window));
    const auto sliding = std::make_unique<bool[]>(windows.size());
    for (size_t i = 0; i < windows.size(); ++i) sliding[i] = windows[i] != 0;
    writer.set(fmt::format("{}.attention.sliding_window_pattern", s.architecture()),
               std::span<const bool>(sliding.get(), windows.size()));
}

Status check_writable(const Settings& s, op::Activation activation, op::Activation usual) {
    if (activation == usual) return Ok{};
    return fail("{}: GGUF cannot say that a model of this family has another activation than usual",
                s.checkpoint().name());
}

void add_results(graph::Graph& g, graph::Tensor x, const Head& head) {
    x = g.select_rows(x, g.output_rows());  // the norm is row by row, so what is not wanted can go before it
    const graph::Tensor hidden = g.rms_norm(x, head.norm, head.eps);
    graph::Tensor logits = g.scale(g.linear(head.output, hidden), head.scale);
    if (head.softcap > 0) logits = g.softcap(logits, head.softcap);
    g.result("hidden", hidden);
    g.result("logits", logits);
    g.result("next", g.sample(logits));
}

Model assemble(const Settings& s, const Dimensions& dims, graph::Graph g, Binder binder) {
    Model model;
    static_cast<Dimensions&>(model) = dims;
    model.name = s.checkpoint().name();
    if (const format::GgufFile* gguf = s.checkpoint().gguf()) {
        if (const auto name = gguf->get_string("general.name"); name && !name->empty()) model.name = *name;
    }
    model.parameters = binder.parameters();
    model.program = std::move(g).finish();
    model.weights = std::move(binder).take_weights();
    return model;
}

}  // namespace tandem::models
