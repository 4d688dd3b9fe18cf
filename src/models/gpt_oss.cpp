// gpt-oss: attention with sinks, every other layer in a window; experts with biases, a clamped activation and weights
// that are a softmax over the chosen ones alone.
#include <fmt/format.h>

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

constexpr int kPeriod = 2;  // every so manyth layer attends to everything

std::vector<int> read_windows(Settings& s, int layers) {
    if (s.is_gguf()) return read_gguf_windows(s, layers, kPeriod);
    const int window = s.count({"", "sliding_window"}, kMaxContext, 128);
    return read_layer_types(s, layers, window).value_or(periodic_windows(layers, kPeriod, window));
}

Result<PlainConfig> read_gpt_oss(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 8, .head_dim = 64, .context_length = 131072, .experts = true});
    cfg.gguf_ffn_norm = "post_attention_norm.weight";
    cfg.windows = read_windows(s, cfg.layers);
    cfg.usual_window_period = kPeriod;
    cfg.qkv_bias = true;
    cfg.output_bias = true;
    cfg.sinks = true;
    // Its files cannot say so, but the ramp of its yarn is not rounded to whole pairs.
    if (s.is_gguf()) cfg.rope.truncate = false;
    ExpertConfig experts = read_experts(s, {.count = 128, .used = 4, .ffn_dim = cfg.ffn_dim}, cfg.ffn_dim);
    experts.route.score = op::Score::chosen_softmax;
    experts.activation = op::Activation::clamped;
    constexpr double kLimit = 7;  // of that activation
    if (const double limit = s.real({"", "swiglu_limit"}, {0, 1e6}, kLimit); limit != kLimit)
        s.reject(fmt::format("'swiglu_limit' is {}, expected {}", limit, kLimit));
    experts.biased = true;
    experts.names.router = "mlp.router";
    experts.interleaved = true;
    cfg.experts = experts;
    TRY(s.status());
    return cfg;
}

Status write_gpt_oss(Settings s, format::GgufWriter& writer) {
    PlainConfig cfg = TRY(read_gpt_oss(s));
    const bool yarn = cfg.rope.scaling == RopeSettings::Scaling::yarn;
    if (yarn && cfg.rope.truncate)
        return fail("{}: GGUF cannot say that yarn truncates in this family", s.checkpoint().name());
    cfg.rope.truncate = true;  // so far as a file says
    return write_plain_settings(s, cfg, writer);
}

}  // namespace

const Family& gpt_oss() {
    static const Family family{.name = "gpt_oss",
                               .architecture = "gpt-oss",
                               .architectures = {"gpt-oss"},
                               .model_types = {"gpt_oss", "GptOssForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .takes_bytes = true,
                               .load = load_plain<read_gpt_oss>,
                               .write_settings = write_gpt_oss};
    return family;
}

}  // namespace tandem::models
