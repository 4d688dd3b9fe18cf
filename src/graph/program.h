// Program: the forward pass of a model as a flat list of ops over values, each value made once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"
#include "graph/tensor_type.h"

namespace tandem::graph {

using ValueId = int32_t;

// The inputs that every step brings, all i32.
inline constexpr std::string_view kTokens = "tokens";           // [tokens] token ids
inline constexpr std::string_view kPositions = "positions";     // [tokens] each in its own sequence
inline constexpr std::string_view kOutputRows = "output_rows";  // [outputs] rows whose logits are wanted

struct Value {
    enum class Kind : uint8_t { input, weight, computed };

    Kind kind;
    TensorType type;
    std::string name;  // of an input or a weight
};

struct Node {
    Op op;
    std::vector<ValueId> inputs;
    ValueId output;
};

// The keys and values one attention layer keeps. Layers with the same window form a group: they keep the same
// positions, so a sequence has one block table per group.
struct CacheLayer {
    int kv_heads;
    int head_dim;
    int window;  // 0: all positions
    int group;
};

// A value somebody outside wants: "next" (sampled tokens), "logits", "hidden" (what they are made from).
struct NamedResult {
    std::string name;
    ValueId value;
};

struct Program {
    std::vector<Value> values;
    std::vector<Node> nodes;  // in an order in which they can run
    std::vector<CacheLayer> caches;
    std::vector<NamedResult> results;

    int cache_groups() const;
    const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
};

// One line per node, as `tandem inspect --graph` prints it:
//   %12 = rms_norm(%10, blk.0.attn_norm.weight) eps=1e-06 : f32[tokens, 256]
std::string to_string(const Program& program);

// The same Program with only the named results, in that order, and what they need. CHECKs that the names exist.
Program keep_results(const Program& program, const std::vector<std::string>& names);

}  // namespace tandem::graph
