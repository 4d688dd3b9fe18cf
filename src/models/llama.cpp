// Llama 1 to 3, and what was built after it under its name.
#include "models/families.h"
#include "models/mixtral.h"
#include "models/plain_decoder.h"

namespace tandem::models {

namespace {

Result<PlainConfig> read_config(Settings& s) {
    PlainConfig cfg = read_plain_config(s, {.context_length = 2048, .experts = s.is_gguf()});
    // The rows of a GGUF file's queries and keys are permuted so that pairs lie side by side.
    if (s.is_gguf()) cfg.rope_layout = op::RopeLayout::interleaved;
    // Only a Mistral has a window, but in a GGUF file it is a Llama.
    if (s.is_gguf()) cfg.windows = read_gguf_windows(s, cfg.layers, kAllLayers);
    cfg.qkv_bias = read_bias(s, {"blk.0.attn_q.bias", "attention_bias"});
    cfg.output_bias = read_bias(s, {"blk.0.attn_output.bias", "attention_bias"});
    cfg.ffn_bias = read_bias(s, {"blk.0.ffn_gate.bias", "mlp_bias"});
    // A Mixtral is a Llama too.
    if (s.is_gguf() && has_experts(s)) cfg.experts = read_mixtral_experts(s, cfg.ffn_dim);
    TRY(s.status());
    return cfg;
}

}  // namespace

const Family& llama() {
    static const Family family{.name = "llama",
                               .architecture = "llama",
                               .architectures = {"llama"},
                               .model_types = {"llama", "LlamaForCausalLM"},
                               .gguf_rope = op::RopeLayout::interleaved,
                               .load = load_plain<read_config>,
                               .write_settings = write_plain<read_config>};
    return family;
}

}  // namespace tandem::models
