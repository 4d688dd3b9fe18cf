// SmolLM 3: a Llama in which every fourth layer does without rope.
#include <fmt/format.h>

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

constexpr int kUsualInterval = 4;

// The layers whose number plus one is a multiple of the interval have none.
std::vector<bool> periodic_rope(int layers, int interval) {
    std::vector<bool> turned(static_cast<size_t>(layers), true);
    for (int i = interval - 1; i < layers; i += interval) turned[static_cast<size_t>(i)] = false;
    return turned;
}

// `no_rope_layers` has 1 for the layers that do have it. A GGUF file cannot say it.
std::vector<bool> read_turned(Settings& s, int layers) {
    const Key key{"", "no_rope_layers"};
    if (!s.has_value(key)) {
        return periodic_rope(layers, s.count({"", "no_rope_layer_interval"}, kMaxLayers, kUsualInterval));
    }
    const std::vector<double> list = s.reals(key, {0, 1});
    if (list.size() != static_cast<size_t>(layers)) {
        s.reject(fmt::format("'no_rope_layers' has {} entries for {} layers", list.size(), layers));
    }
    std::vector<bool> turned(static_cast<size_t>(layers), true);
    for (size_t i = 0; i < std::min(turned.size(), list.size()); ++i) turned[i] = list[i] != 0;
    return turned;
}

Result<PlainConfig> read_config(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 4, .context_length = 32768}, {.usual_base = 2e6});
    if (s.is_gguf()) cfg.rope_layout = op::RopeLayout::interleaved;
    cfg.turned = read_turned(s, cfg.layers);
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.output_bias = read_bias(s, {"blk.0.attn_output.bias", "attention_bias"});
    cfg.ffn_bias = read_bias(s, {"blk.0.ffn_gate.bias", "mlp_bias"});
    cfg.tied = s.flag({"", "tie_word_embeddings"}, true);
    if (s.flag({"", "use_sliding_window"}, false)) s.reject("SmolLM 3 with a sliding window is not supported");
    TRY(s.status());
    return cfg;
}

Status write_settings(Settings s, format::GgufWriter& writer) {
    const PlainConfig cfg = TRY(read_config(s));
    if (cfg.turned != periodic_rope(cfg.layers, kUsualInterval)) {
        return fail("{}: GGUF cannot say that other layers than every fourth do without rope", s.checkpoint().name());
    }
    return write_plain_settings(s, cfg, writer);
}

}  // namespace

const Family& smollm3() {
    static const Family family{.name = "smollm3",
                               .architecture = "smollm3",
                               .architectures = {"smollm3"},
                               .model_types = {"smollm3", "SmolLM3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_config>,
                               .write_settings = write_settings};
    return family;
}

}  // namespace tandem::models
