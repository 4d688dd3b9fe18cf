// Phi 3 and 4: a Llama whose queries, keys and values are one matrix, and gate and up another; longrope where the
// context was stretched.
#include "models/families.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

Result<PlainConfig> read_config(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.context_length = 4096});
    cfg.windows =
        s.is_gguf()
            ? read_gguf_windows(s, cfg.layers, kAllLayers)
            : periodic_windows(cfg.layers, kAllLayers,
                               s.has_value({"", "sliding_window"}) ? s.count({"", "sliding_window"}, kMaxContext) : 0);
    cfg.fused = true;
    TRY(s.status());
    return cfg;
}

}  // namespace

const Family& phi3() {
    static const Family family{.name = "phi3",
                               .architecture = "phi3",
                               .architectures = {"phi3"},
                               .model_types = {"phi3", "Phi3ForCausalLM"},
                               .gguf_rope = op::RopeLayout::half,
                               .load = load_plain<read_config>,
                               .write_settings = write_plain<read_config>};
    return family;
}

}  // namespace tandem::models
