// What the decoder families have in common: their sizes, their sliding windows, how a Model is put together.
#pragma once

#include <optional>
#include <vector>

#include "format/gguf_writer.h"
#include "graph/builder.h"
#include "graph/ops.h"
#include "models/binder.h"
#include "models/model.h"
#include "models/settings.h"

namespace tandem::models {

inline constexpr int kMaxLayers = 1024;
inline constexpr int kMaxDim = 1 << 20;
inline constexpr int kMaxHeads = 1 << 14;
inline constexpr int kMaxHeadDim = 1 << 12;
inline constexpr int kMaxFfnDim = 1 << 24;
inline constexpr int kMaxVocab = 1 << 26;
inline constexpr int kMaxContext = 1 << 30;

// What transformers assumes where config.json is silent; nothing: the key must be there.
struct HfDefaults {
    std::optional<int> dim = {};
    std::optional<int> layers = {};
    std::optional<int> heads = {};
    std::optional<int> kv_heads = {};  // nothing: as many as heads
    std::optional<int> head_dim = {};  // nothing: dim / heads
    std::optional<int> ffn_dim = {};
    int context_length = 0;
    bool per_layer = false;  // key-value heads and ffn_dim may be lists; the first layer's are then taken
    bool experts = false;    // the family may have them; of others a file that says so is refused
};

// A number of every layer: one for all of them, or a list.
std::vector<int> read_per_layer(Settings& settings, const Key& key, int limit, int layers, std::optional<int> fallback);

// All but rope_dim, which read_rope() knows. Ok or not is in settings.status().
Dimensions read_dimensions(Settings& settings, const HfDefaults& defaults);

// The epsilon of the norms; `usual` where config.json is silent.
float read_eps(Settings& settings, double usual = 1e-6);

// Of the feed-forward part; a GGUF file does not say, its family does.
op::Activation read_activation(Settings& settings, op::Activation usual);

inline constexpr int kAllLayers = 0;  // the period of windows that no layer is without

// Which layers of a GGUF file attend within a window (0: to everything). `usual_period` is for files that name a
// window but no pattern: every so manyth layer attends to everything; 0: none does.
std::vector<int> read_gguf_windows(Settings& settings, int layers, int usual_period);

// `layer_types` of config.json as windows; nothing when it is not there.
std::optional<std::vector<int>> read_layer_types(Settings& settings, int layers, int window);

// Layer i is sliding unless i + 1 is a multiple of `period`; period 0: all are.
std::vector<int> periodic_windows(int layers, int period, int window);

// Writes the sizes, eps, and the windows where there are any, under the keys of settings.architecture(). The pattern
// of windows is left out when it is the usual one.
void write_dimensions(const Settings& settings, const Dimensions& dims, float eps, format::GgufWriter& writer);
void write_windows(const Settings& settings, const std::vector<int>& windows, int usual_period,
                   format::GgufWriter& writer);
// The pattern as a list of the layers, which the newer families always have.
void write_window_list(const Settings& settings, const std::vector<int>& windows, format::GgufWriter& writer);

// config.json can name activations that GGUF has no key for.
Status check_writable(const Settings& settings, op::Activation activation, op::Activation usual);

// The rows that are wanted through the last norm (the result "hidden") and matrix: "logits" and "next".
struct Head {
    graph::Tensor norm;    // [dim]
    graph::Tensor output;  // [vocab, dim]
    float eps = 0.0F;
    float softcap = 0.0F;  // 0: none
    float scale = 1.0F;    // of the logits
};
void add_results(graph::Graph& g, graph::Tensor x, const Head& head);

// The Model that was built in `g` with the weights of `binder`.
Model assemble(const Settings& settings, const Dimensions& dims, graph::Graph g, Binder binder);

}  // namespace tandem::models
