// Qwen 2 and 2.5: a bias on queries, keys and values. Qwen 3: a norm on every head's query and key instead.
#include "models/qwen.h"

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

std::vector<int> read_qwen_windows(Settings& s, int layers) {
    if (s.is_gguf()) return read_gguf_windows(s, layers, kAllLayers);
    std::vector<int> windows(static_cast<size_t>(layers), 0);
    const Key key{"", "sliding_window"};
    const bool none = s.is_there(key) && !s.has_value(key);  // null on purpose
    if (none || !s.flag({"", "use_sliding_window"}, false)) return windows;
    const int window = s.count(key, kMaxContext, 4096);
    if (auto by_type = read_layer_types(s, layers, window)) return *std::move(by_type);
    const auto full_layers = static_cast<size_t>(s.real({"", "max_window_layers"}, {0, kMaxLayers}, 28));
    for (size_t i = full_layers; i < windows.size(); ++i) windows[i] = window;
    return windows;
}

namespace {

Result<PlainConfig> read_qwen2(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 32, .context_length = 32768});
    cfg.windows = read_qwen_windows(s, cfg.layers);
    cfg.qkv_bias = true;
    TRY(s.status());
    return cfg;
}

Result<PlainConfig> read_qwen3(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 32, .head_dim = 128, .context_length = 32768});
    cfg.windows = read_qwen_windows(s, cfg.layers);
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.output_bias = read_bias(s, {"blk.0.attn_output.bias", "attention_bias"});
    cfg.qk_norm = true;
    TRY(s.status());
    return cfg;
}

}  // namespace

const Family& qwen2() {
    static const Family family{.name = "qwen2",
                               .architecture = "qwen2",
                               .architectures = {"qwen2"},
                               .model_types = {"qwen2", "Qwen2ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_qwen2>,
                               .write_settings = write_plain<read_qwen2>};
    return family;
}

const Family& qwen3() {
    static const Family family{.name = "qwen3",
                               .architecture = "qwen3",
                               .architectures = {"qwen3"},
                               .model_types = {"qwen3", "Qwen3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_qwen3>,
                               .write_settings = write_plain<read_qwen3>};
    return family;
}

}  // namespace tandem::models
