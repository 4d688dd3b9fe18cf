// Patterns: the groups of a Program's nodes that the GPU runs as one stage or as neighbours that share a layout.
#pragma once

#include <optional>
#include <vector>

#include "graph/ops.h"
#include "graph/program.h"

namespace tandem::vulkan {

using NodeIndex = size_t;

// Who makes and who reads each value.
class Uses {
  public:
    explicit Uses(const graph::Program& program);

    // Null for inputs and weights.
    const graph::Node* maker(graph::ValueId id) const;
    std::optional<NodeIndex> maker_index(graph::ValueId id) const;
    const std::vector<NodeIndex>& users(graph::ValueId id) const { return users_[static_cast<size_t>(id)]; }
    // Read by one node only, once, and not wanted outside.
    bool single(graph::ValueId id) const;
    bool is_result(graph::ValueId id) const { return result_[static_cast<size_t>(id)]; }

    // The op of the value's maker, if the maker is of that kind and the value has no other user.
    template <typename T>
    const graph::Node* only(graph::ValueId id) const {
        const graph::Node* node = maker(id);
        return node != nullptr && node->op.as<T>() != nullptr && single(id) ? node : nullptr;
    }

  private:
    const graph::Program& program_;
    std::vector<std::optional<NodeIndex>> maker_;
    std::vector<std::vector<NodeIndex>> users_;
    std::vector<bool> result_;
};

// A Linear whose weight is not f32 and whose rows are whole blocks: its input is read as Activations.
bool is_product(const graph::Program& program, const graph::Node& node);
// How a single row is brought to a weight: as f16 to those that are not quantised, as bytes to most others; to those
// that are looked up in a table as f16 where matrices can be streamed, since a table of f16 costs no more there.
enum class RowKind : uint8_t { halves, bytes, looked_up };
RowKind row_kind(DType dtype);

// sum_scale * (x + delta_scale * [norm](linear(...))), and the norm before the next products where there is one.
struct Residual {
    NodeIndex add;
    graph::ValueId x;
    NodeIndex linear;
    std::optional<NodeIndex> post_norm;
    std::vector<NodeIndex> inner;  // what lies between linear and add
    float delta_scale = 1.0F;
    std::optional<NodeIndex> scale;  // after add
    float sum_scale = 1.0F;
    graph::ValueId sum;
    std::optional<NodeIndex> norm;
};

// activation(linear(gate, x)) * linear(up, x), read by products alone
struct GatedProduct {
    NodeIndex gate, up, glu;
};

// A product of q or k, and what is made of it in order: a norm of every head, rope.
struct AttentionHead {
    NodeIndex linear;
    std::optional<NodeIndex> norm, rope;
};

// Everything from the products of q, k and v to an attention that only products read. The three products are one, or
// that of v is apart, where its weights are of another type; v may be the product of k. An attention to keys that
// another has written has q alone.
struct AttentionInputs {
    AttentionHead q;
    std::optional<NodeIndex> q_scale;  // by position
    struct Written {
        AttentionHead k;
        NodeIndex v;  // that of k, where they are the same
        bool v_apart;
        std::optional<NodeIndex> v_norm;  // without a weight
        NodeIndex write;
    };
    std::optional<Written> written;
    NodeIndex attention;

    bool begins_at(NodeIndex n) const {
        return q.linear == n || (written && (written->k.linear == n || written->v == n));
    }
};

// The weighted sum of down(activation(gate(h)) * up(h)) of the experts of h's rows. Gate and up lie in one weight, or
// in two of one type.
struct ExpertBlock {
    NodeIndex gate, up, glu, down, sum;
};

struct Patterns {
    std::vector<Residual> residuals;
    std::vector<NodeIndex> norms;  // that only products read, and that are in no Residual
    std::vector<GatedProduct> gated;
    std::vector<AttentionInputs> attention;
    std::vector<ExpertBlock> experts;
};

Patterns find_patterns(const graph::Program& program, const Uses& uses);

}  // namespace tandem::vulkan
