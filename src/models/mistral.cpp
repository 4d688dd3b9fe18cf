// Mistral: a Llama whose layers may have a sliding window. Most of its GGUF files say that they are a Llama. Ministral
// 3: yarn, and queries that grow past the original context; its GGUF files are those of Mistral Small 3 too.
#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

// In config.json null means none, and saying nothing means 4096 (Ministral 3: none).
int read_hf_window(Settings& s, int usual) {
    const Key key{"", "sliding_window"};
    if (!s.has_value(key)) return s.is_there(key) ? 0 : usual;
    return s.count(key, kMaxContext);
}

Result<PlainConfig> read_config(Settings& s, const HfDefaults& defaults, int usual_window) {
    PlainConfig cfg = read_plain_config(s, defaults);
    if (s.is_gguf()) cfg.rope_layout = op::RopeLayout::interleaved;
    cfg.windows = s.is_gguf() ? read_gguf_windows(s, cfg.layers, kAllLayers)
                              : periodic_windows(cfg.layers, kAllLayers, read_hf_window(s, usual_window));
    TRY(s.status());
    return cfg;
}

Result<PlainConfig> read_mistral(Settings& s) {
    return read_config(s, {.kv_heads = 8, .context_length = 131072}, 4096);
}

Result<PlainConfig> read_ministral3(Settings& s) {
    return read_config(s, {.kv_heads = 8, .head_dim = 128, .context_length = 262144}, 0);
}

}  // namespace

const Family& mistral() {
    static const Family family{.name = "mistral",
                               .architecture = "llama",
                               .architectures = {},
                               .model_types = {"mistral", "MistralForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_mistral>,
                               .write_settings = write_plain<read_mistral>};
    return family;
}

const Family& ministral3() {
    static const Family family{.name = "ministral3",
                               .architecture = "mistral3",
                               .architectures = {"mistral3"},
                               .model_types = {"ministral3", "mistral3", "Ministral3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_ministral3>,
                               .write_settings = write_plain<read_ministral3>};
    return family;
}

}  // namespace tandem::models
