// Mixtral: a Mistral whose feed-forward part is a mixture of experts. In a GGUF file it is a Llama.
#include "models/mixtral.h"

#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

// In config.json null or nothing means none.
int read_window(Settings& s) {
    const Key key{"", "sliding_window"};
    return s.has_value(key) ? s.count(key, kMaxContext) : 0;
}

Result<PlainConfig> read_mixtral(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 8, .context_length = 131072, .experts = true});
    cfg.windows = periodic_windows(cfg.layers, kAllLayers, read_window(s));
    cfg.experts = read_mixtral_experts(s, cfg.ffn_dim);
    TRY(s.status());
    return cfg;
}

}  // namespace

ExpertConfig read_mixtral_experts(Settings& s, int ffn_dim) {
    ExpertConfig cfg = read_experts(s, {.count = 8, .used = 2, .ffn_dim = ffn_dim}, ffn_dim);
    cfg.route.score = op::Score::softmax;
    cfg.route.normalize = true;
    cfg.names = {.router = "block_sparse_moe.gate",
                 .gate = "block_sparse_moe.experts.{}.w1.weight",
                 .up = "block_sparse_moe.experts.{}.w3.weight",
                 .down = "block_sparse_moe.experts.{}.w2.weight"};
    return cfg;
}

const Family& mixtral() {
    static const Family family{.name = "mixtral",
                               .architecture = "llama",
                               .architectures = {},
                               .model_types = {"mixtral", "MixtralForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_mixtral>,
                               .write_settings = write_plain<read_mixtral>};
    return family;
}

}  // namespace tandem::models
