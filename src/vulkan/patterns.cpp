#include "vulkan/patterns.h"

#include <algorithm>
#include <set>

#include "vulkan/planes.h"

namespace tandem::vulkan {

namespace {

using graph::Node;
using graph::Program;
using graph::ValueId;

const graph::TensorType& weight_type(const Program& program, const Node& linear) {
    return program.value(linear.inputs[0]).type;
}

class Finder {
  public:
    Finder(const Program& program, const Uses& uses) : program_(program), uses_(uses) {}

    Patterns find() {
        for (NodeIndex n = 0; n < program_.nodes.size(); ++n) {
            const Node& node = program_.nodes[n];
            if (node.op.as<op::Add>() != nullptr) {
                if (auto found = residual(n)) patterns_.residuals.push_back(*found);
            } else if (node.op.as<op::Glu>() != nullptr) {
                if (auto found = gated(n)) patterns_.gated.push_back(*found);
            } else if (node.op.as<op::Attention>() != nullptr) {
                if (auto found = attention(n)) patterns_.attention.push_back(*found);
            } else if (node.op.as<op::ExpertSum>() != nullptr) {
                if (auto found = experts(n)) patterns_.experts.push_back(*found);
            }
        }
        std::set<NodeIndex> taken;
        for (const Residual& residual : patterns_.residuals) {
            if (residual.norm) taken.insert(*residual.norm);
            if (residual.post_norm) taken.insert(*residual.post_norm);
        }
        for (NodeIndex n = 0; n < program_.nodes.size(); ++n) {
            if (feeds_products(n) && !taken.contains(n)) patterns_.norms.push_back(n);
        }
        return std::move(patterns_);
    }

  private:
    NodeIndex index(ValueId id) const { return *uses_.maker_index(id); }

    // A norm of whole rows that only products read, all of weights that want the same activations.
    bool feeds_products(NodeIndex n) const {
        const Node& node = program_.nodes[n];
        return node.op.as<op::RmsNorm>() != nullptr &&
               program_.value(node.inputs[1]).type.cols() == program_.value(node.output).type.cols() &&
               only_products_read(node.output);
    }

    bool only_products_read(ValueId id) const {
        const std::vector<NodeIndex>& users = uses_.users(id);
        const auto kind = [&](NodeIndex user) { return row_kind(weight_type(program_, program_.nodes[user]).dtype); };
        return !users.empty() && !uses_.is_result(id) && std::all_of(users.begin(), users.end(), [&](NodeIndex user) {
            return is_product(program_, program_.nodes[user]) && kind(user) == kind(users.front());
        });
    }

    std::optional<Residual> residual(NodeIndex add) const {
        const Node& node = program_.nodes[add];
        for (const size_t side : {size_t{1}, size_t{0}}) {
            ValueId delta = node.inputs[side];
            Residual found{.add = add, .x = node.inputs[1 - side], .linear = 0, .post_norm = {}, .norm = {}};
            if (uses_.only<op::RmsNorm>(delta) != nullptr) {
                const Node& norm = *uses_.maker(delta);
                if (program_.value(norm.inputs[1]).type.cols() != program_.value(delta).type.cols()) continue;
                found.post_norm = index(delta);
                delta = norm.inputs[0];
            }
            const Node* linear = uses_.only<op::Linear>(delta);
            if (linear == nullptr || !is_product(program_, *linear)) continue;
            if (program_.value(delta).type.cols() % 32 != 0) continue;
            found.linear = index(delta);
            for (NodeIndex user : uses_.users(node.output)) {
                if (feeds_products(user)) found.norm = user;
            }
            return found;
        }
        return {};
    }

    // Two products of the same input and type, so that one matrix holds both.
    bool mergeable(const Node& a, const Node& b) const {
        return is_product(program_, a) && is_product(program_, b) && a.inputs[1] == b.inputs[1] &&
               a.inputs.size() == b.inputs.size() && weight_type(program_, a).dtype == weight_type(program_, b).dtype;
    }

    std::optional<GatedProduct> gated(NodeIndex glu) const {
        const Node& node = program_.nodes[glu];
        const Node* gate = uses_.only<op::Linear>(node.inputs[0]);
        const Node* up = uses_.only<op::Linear>(node.inputs[1]);
        if (gate == nullptr || up == nullptr || !mergeable(*gate, *up) || !only_products_read(node.output)) return {};
        const Node& reader = program_.nodes[uses_.users(node.output).front()];
        if (row_kind(weight_type(program_, *gate).dtype) != row_kind(weight_type(program_, reader).dtype)) return {};
        return GatedProduct{.gate = index(gate->output), .up = index(up->output), .glu = glu};
    }

    struct Head {
        NodeIndex linear;
        std::optional<NodeIndex> norm;
        NodeIndex rope;
    };
    // rope([norm](linear(...)))
    std::optional<Head> head(ValueId id) const {
        const Node* rope = uses_.only<op::Rope>(id);
        if (rope == nullptr) return {};
        Head found{.linear = 0, .norm = {}, .rope = index(id)};
        ValueId inner = rope->inputs[0];
        if (const Node* norm = uses_.only<op::RmsNorm>(inner)) {
            if (program_.value(norm->inputs[1]).type.cols() != rope->op.as<op::Rope>()->head_dim) return {};
            found.norm = index(inner);
            inner = norm->inputs[0];
        }
        if (uses_.only<op::Linear>(inner) == nullptr) return {};
        found.linear = index(inner);
        return found;
    }

    bool same_rope(NodeIndex a, NodeIndex b) const {
        const op::Rope& x = *program_.nodes[a].op.as<op::Rope>();
        const op::Rope& y = *program_.nodes[b].op.as<op::Rope>();
        return x.head_dim == y.head_dim && x.layout == y.layout && x.magnitude == y.magnitude &&
               x.inv_freq == y.inv_freq;
    }

    std::optional<AttentionInputs> attention(NodeIndex n) const {
        const Node& node = program_.nodes[n];
        const Node* write = uses_.only<op::KvWrite>(node.inputs[1]);
        if (write == nullptr || !only_products_read(node.output)) return {};
        const auto q = head(node.inputs[0]);
        const auto k = head(write->inputs[0]);
        const Node* v = uses_.only<op::Linear>(write->inputs[1]);
        if (!q || !k || v == nullptr || q->norm.has_value() != k->norm.has_value()) return {};
        const Node& q_linear = program_.nodes[q->linear];
        if (!mergeable(q_linear, program_.nodes[k->linear])) return {};
        if (!is_product(program_, *v) || v->inputs[1] != q_linear.inputs[1]) return {};
        if (!same_rope(q->rope, k->rope)) return {};
        if (q->norm &&
            program_.nodes[*q->norm].op.as<op::RmsNorm>()->eps != program_.nodes[*k->norm].op.as<op::RmsNorm>()->eps) {
            return {};
        }
        return AttentionInputs{.q = q->linear,
                               .k = k->linear,
                               .v = index(v->output),
                               .v_apart = !mergeable(q_linear, *v),
                               .q_norm = q->norm,
                               .k_norm = k->norm,
                               .q_rope = q->rope,
                               .k_rope = k->rope,
                               .write = index(write->output),
                               .attention = n};
    }

    // Multiplied by the kernels for blocks of 32 inputs.
    bool is_expert_product(const Node& node) const {
        const graph::TensorType& weight = weight_type(program_, node);
        return weight.dtype != DType::f32 && weight.cols() % 32 == 0;
    }

    // Rows of the same number of all experts' matrices, the up rows at one distance from those of the gate.
    bool is_gate_and_up(const Node& gate, const Node& up) const {
        const op::ExpertLinear& a = *gate.op.as<op::ExpertLinear>();
        const op::ExpertLinear& b = *up.op.as<op::ExpertLinear>();
        if (a.scaled || b.scaled || a.biased != b.biased || a.count != b.count || a.first != 0) return false;
        if (gate.inputs[1] != up.inputs[1] || gate.inputs[2] != up.inputs[2]) return false;
        if (a.count % 32 != 0 || weight_type(program_, gate).dtype != weight_type(program_, up).dtype) return false;
        const int64_t all = weight_type(program_, gate).shape[1].count;
        return gate.inputs[0] == up.inputs[0] ? b.first == a.count && all == 2 * a.count && !a.biased
                                              : b.first == 0 && all == a.count;
    }

    std::optional<ExpertBlock> experts(NodeIndex sum) const {
        const Node& node = program_.nodes[sum];
        const Node* down = uses_.only<op::ExpertLinear>(node.inputs[0]);
        if (down == nullptr || down->inputs[2] != node.inputs[1] || !is_expert_product(*down)) return {};
        const Node* glu = uses_.only<op::Glu>(down->inputs[1]);
        if (glu == nullptr) return {};
        const Node* gate = uses_.only<op::ExpertLinear>(glu->inputs[0]);
        const Node* up = uses_.only<op::ExpertLinear>(glu->inputs[1]);
        if (gate == nullptr || up == nullptr || gate->inputs[2] != node.inputs[1]) return {};
        if (!is_expert_product(*gate) || !is_gate_and_up(*gate, *up)) return {};
        if (program_.value(gate->inputs[1]).type.cols() != weight_type(program_, *gate).cols()) return {};
        return ExpertBlock{.gate = index(gate->output),
                           .up = index(up->output),
                           .glu = index(glu->output),
                           .down = index(down->output),
                           .sum = sum};
    }

    const Program& program_;
    const Uses& uses_;
    Patterns patterns_;
};

}  // namespace

Uses::Uses(const Program& program)
    : program_(program),
      maker_(program.values.size()),
      users_(program.values.size()),
      result_(program.values.size(), false) {
    for (NodeIndex n = 0; n < program.nodes.size(); ++n) {
        maker_[static_cast<size_t>(program.nodes[n].output)] = n;
        for (ValueId input : program.nodes[n].inputs) users_[static_cast<size_t>(input)].push_back(n);
    }
    for (const graph::NamedResult& result : program.results) result_[static_cast<size_t>(result.value)] = true;
}

std::optional<NodeIndex> Uses::maker_index(ValueId id) const {
    return maker_[static_cast<size_t>(id)];
}

const Node* Uses::maker(ValueId id) const {
    const auto index = maker_index(id);
    return index ? &program_.nodes[*index] : nullptr;
}

bool Uses::single(ValueId id) const {
    return users(id).size() == 1 && !is_result(id);
}

RowKind row_kind(DType dtype) {
    if (!is_quantized(dtype)) return RowKind::halves;
    return is_looked_up(dtype) ? RowKind::looked_up : RowKind::bytes;
}

bool is_product(const Program& program, const Node& node) {
    if (node.op.as<op::Linear>() == nullptr) return false;
    const graph::TensorType& weight = weight_type(program, node);
    return weight.dtype != DType::f32 && weight.cols() % 32 == 0;
}

Patterns find_patterns(const Program& program, const Uses& uses) {
    return Finder(program, uses).find();
}

}  // namespace tandem::vulkan
