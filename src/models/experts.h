// Mixtures of experts: the feed-forward part in which a router sends each row to a few of many experts.
#pragma once

#include <string_view>

#include "format/gguf_writer.h"
#include "models/binder.h"
#include "models/decoder.h"

namespace tandem::models {

// What config.json's checkpoints call the tensors of a layer; {} is the number of an expert.
struct ExpertNames {
    std::string_view router = "mlp.gate";  // .weight and .bias
    std::string_view gate = "mlp.experts.{}.gate_proj.weight";
    std::string_view up = "mlp.experts.{}.up_proj.weight";
    std::string_view down = "mlp.experts.{}.down_proj.weight";
    std::string_view gate_up = "mlp.experts.gate_up_proj";  // both of all experts in one, with the next
    std::string_view all_down = "mlp.experts.down_proj";
    std::string_view shared = "mlp.shared_expert";  // .gate_proj.weight and so on
};

struct ExpertConfig {
    int count = 0;
    int ffn_dim = 0;  // of each
    op::Route route;
    bool correction_bias = false;  // that chooses experts and has no part in their weights
    int shared_dim = 0;            // of the expert that all rows go to; 0: none
    bool shared_gate = false;      // whose result is times the sigmoid of a product
    op::Activation activation = op::Activation::silu;
    bool biased = false;  // router and experts
    ExpertNames names = {};
    // config.json's checkpoints have rows of gate and up in turn: see models/interleaved_experts.h
    bool interleaved = false;
};

// What transformers assumes where config.json is silent; nothing: the key must be there.
struct ExpertDefaults {
    std::optional<int> count = {};
    std::optional<int> used = {};
    std::optional<int> ffn_dim = {};
};

// How many there are, how many a row goes to and how wide they are. The router and the shared expert are the family's.
ExpertConfig read_experts(Settings& settings, const ExpertDefaults& defaults, int dense_ffn_dim);

inline constexpr int kMaxExperts = 4096;

// Whether the groups that a router looks at have as many experts as it chooses.
bool fits(const ExpertConfig& cfg);

// Whether a GGUF file has experts.
bool has_experts(Settings& settings);

// The tensors of a layer.
struct ExpertLayer {
    graph::Tensor router, router_bias;     // [experts, dim], [experts]
    graph::Tensor correction;              // [experts]
    graph::ExpertMatrix gate, up;          // [experts, ffn_dim, dim]
    graph::ExpertMatrix down;              // [experts, dim, ffn_dim]
    graph::Tensor shared_gate, shared_up;  // [shared_dim, dim]
    graph::Tensor shared_down;             // [dim, shared_dim]
    graph::Tensor shared_weight;           // [1, dim]
};

// Gate, up and down alone; gate and up in one tensor or in two, as the checkpoint has them.
void bind_experts(Binder& binder, int layer, const ExpertConfig& cfg, int dim, ExpertLayer& to);
// All of them.
ExpertLayer bind_expert_layer(Binder& binder, int layer, const ExpertConfig& cfg, int dim);

// What the experts of h's rows make of them, with the shared one. The router's logits are made of `routed`.
graph::Tensor apply_experts(graph::Graph& g, const ExpertConfig& cfg, const ExpertLayer& w, graph::Tensor h,
                            graph::Tensor routed);

void write_experts(const Settings& settings, const ExpertConfig& cfg, format::GgufWriter& writer);

}  // namespace tandem::models
