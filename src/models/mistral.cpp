// Mistral: a Llama whose layers may have a sliding window. Most of its GGUF files say that they are a Llama.
#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

// In config.json null means none, and saying nothing means 4096.
int read_hf_window(Settings& s) {
    const Key key{"", "sliding_window"};
    return s.is_there(key) && !s.has_value(key) ? 0 : s.count(key, kMaxContext, 4096);
}

Result<PlainConfig> read_config(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.kv_heads = 8, .context_length = 131072});
    if (s.is_gguf()) cfg.rope_layout = op::RopeLayout::interleaved;
    cfg.windows = s.is_gguf() ? read_gguf_windows(s, cfg.layers, kAllLayers)
                              : periodic_windows(cfg.layers, kAllLayers, read_hf_window(s));
    if (s.real({"attention.temperature_scale", ""}, {0, 1e6}, 0) > 0) s.reject("scaled temperatures are not supported");
    TRY(s.status());
    return cfg;
}

}  // namespace

const Family& mistral() {
    static const Family family{.name = "mistral",
                               .architecture = "llama",
                               .architectures = {"mistral3"},
                               .model_types = {"mistral", "MistralForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_config>,
                               .write_settings = write_plain<read_config>};
    return family;
}

}  // namespace tandem::models
