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

    // A norm with a weight of so many elements.
    bool is_norm(const Node& node, int64_t width) const {
        return node.op.as<op::RmsNorm>() != nullptr && node.inputs.size() == 2 &&
               program_.value(node.inputs[1]).type.cols() == width;
    }

    // A norm of whole rows that only products read, all of weights that want the same activations.
    bool feeds_products(NodeIndex n) const {
        const Node& node = program_.nodes[n];
        return is_norm(node, program_.value(node.output).type.cols()) && only_products_read(node.output);
    }

    bool only_products_read(ValueId id) const {
        const std::vector<NodeIndex>& users = uses_.users(id);
        const auto kind = [&](NodeIndex user) { return row_kind(weight_type(program_, program_.nodes[user]).dtype); };
        return !users.empty() && !uses_.is_result(id) && std::all_of(users.begin(), users.end(), [&](NodeIndex user) {
            return is_product(program_, program_.nodes[user]) && kind(user) == kind(users.front());
        });
    }

    // The factor of a Scale without a bias.
    static std::optional<float> factor_of(const Node& node) {
        const auto* scale = node.op.as<op::Scale>();
        return scale != nullptr && node.inputs.size() == 1 ? std::optional(scale->factor) : std::nullopt;
    }

    std::optional<Residual> residual(NodeIndex add) const {
        const Node& node = program_.nodes[add];
        for (const size_t side : {size_t{1}, size_t{0}}) {
            ValueId delta = node.inputs[side];
            Residual found{.add = add,
                           .x = node.inputs[1 - side],
                           .linear = 0,
                           .post_norm = {},
                           .inner = {},
                           .scale = {},
                           .sum = node.output,
                           .norm = {}};
            if (const Node* scale = uses_.only<op::Scale>(delta); scale != nullptr && factor_of(*scale)) {
                found.delta_scale = *factor_of(*scale);
                found.inner.push_back(index(delta));
                delta = scale->inputs[0];
            }
            if (uses_.only<op::RmsNorm>(delta) != nullptr) {
                const Node& norm = *uses_.maker(delta);
                if (!is_norm(norm, program_.value(delta).type.cols())) continue;
                found.post_norm = index(delta);
                found.inner.push_back(index(delta));
                delta = norm.inputs[0];
            }
            const Node* linear = uses_.only<op::Linear>(delta);
            if (linear == nullptr || !is_product(program_, *linear)) continue;
            if (program_.value(delta).type.cols() % 32 != 0) continue;
            found.linear = index(delta);
            scale_after(found);
            for (NodeIndex user : uses_.users(found.sum)) {
                if (feeds_products(user)) found.norm = user;
            }
            return found;
        }
        return {};
    }

    void scale_after(Residual& found) const {
        if (!uses_.single(found.sum)) return;
        const NodeIndex user = uses_.users(found.sum).front();
        const std::optional<float> factor = factor_of(program_.nodes[user]);
        if (!factor) return;
        found.scale = user;
        found.sum_scale = *factor;
        found.sum = program_.nodes[user].output;
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

    // [rope]([norm](linear(...))). `other_user`: of the linear besides.
    std::optional<AttentionHead> head(ValueId id, int head_dim, std::optional<NodeIndex> other_user = {}) const {
        AttentionHead found{.linear = 0, .norm = {}, .rope = {}};
        if (const Node* rope = uses_.only<op::Rope>(id)) {
            if (rope->op.as<op::Rope>()->head_dim != head_dim) return {};
            found.rope = index(id);
            id = rope->inputs[0];
        }
        if (const Node* norm = uses_.only<op::RmsNorm>(id)) {
            if (!is_norm(*norm, head_dim)) return {};
            found.norm = index(id);
            id = norm->inputs[0];
        }
        const Node* linear = uses_.maker(id);
        if (linear == nullptr || !is_product(program_, *linear) || uses_.is_result(id)) return {};
        const std::vector<NodeIndex>& users = uses_.users(id);
        const bool known = users.size() == 1 || (other_user && users.size() == 2 && found.norm &&
                                                 std::ranges::count(users, *other_user) == 1);
        if (!known) return {};
        found.linear = index(id);
        return found;
    }

    const op::Rope* rope_of(const AttentionHead& head) const {
        return head.rope ? program_.nodes[*head.rope].op.as<op::Rope>() : nullptr;
    }

    // One kernel makes both.
    bool alike(const AttentionHead& q, const AttentionHead& k) const {
        if (q.norm.has_value() != k.norm.has_value() || q.rope.has_value() != k.rope.has_value()) return false;
        if (q.norm && eps_of(*q.norm) != eps_of(*k.norm)) return false;
        const op::Rope* const x = rope_of(q);
        const op::Rope* const y = rope_of(k);
        return x == nullptr || (x->layout == y->layout && x->magnitude == y->magnitude && x->inv_freq == y->inv_freq);
    }

    float eps_of(NodeIndex norm) const { return program_.nodes[norm].op.as<op::RmsNorm>()->eps; }

    // The first attention to what a KvWrite has written makes it, where all that read it are attentions.
    bool is_first_reader(NodeIndex attention, ValueId written) const {
        return uses_.users(written).front() == attention;
    }
    bool only_attention_reads(ValueId written) const {
        const std::vector<NodeIndex>& users = uses_.users(written);
        return std::ranges::all_of(
            users, [&](NodeIndex user) { return program_.nodes[user].op.as<op::Attention>() != nullptr; });
    }

    std::optional<AttentionInputs::Written> written(const Node& write, const AttentionHead& q, int head_dim) const {
        AttentionInputs::Written found{.k = {}, .v = 0, .v_apart = false, .v_norm = {}, .write = index(write.output)};
        ValueId value = write.inputs[1];
        if (const Node* norm = uses_.only<op::RmsNorm>(value); norm != nullptr && norm->inputs.size() == 1) {
            // A norm of q and k comes with it: their epsilon and sums are its too.
            if (norm->op.as<op::RmsNorm>()->width != head_dim || !q.norm || eps_of(index(value)) != eps_of(*q.norm))
                return {};
            found.v_norm = index(value);
            value = norm->inputs[0];
        }
        const auto k = head(write.inputs[0], head_dim, found.v_norm);
        if (!k || !alike(q, *k)) return {};
        found.k = *k;
        const Node& q_linear = program_.nodes[q.linear];
        const Node& k_linear = program_.nodes[k->linear];
        if (!mergeable(q_linear, k_linear)) return {};
        if (value == k_linear.output) {
            found.v = k->linear;
            return found;
        }
        if (uses_.users(k_linear.output).size() != 1) return {};
        const Node* v = uses_.only<op::Linear>(value);
        if (v == nullptr || !is_product(program_, *v) || v->inputs[1] != q_linear.inputs[1]) return {};
        found.v = index(value);
        found.v_apart = !mergeable(q_linear, *v);
        return found;
    }

    std::optional<AttentionInputs> attention(NodeIndex n) const {
        const Node& node = program_.nodes[n];
        const int head_dim = node.op.as<op::Attention>()->head_dim;
        const Node* write = uses_.maker(node.inputs[1]);
        if (write == nullptr || write->op.as<op::KvWrite>() == nullptr || !only_attention_reads(write->output) ||
            !only_products_read(node.output)) {
            return {};
        }
        AttentionInputs found{.q = {}, .q_scale = {}, .written = {}, .attention = n};
        ValueId queries = node.inputs[0];
        if (const Node* scale = uses_.only<op::ScaleByPosition>(queries)) {
            found.q_scale = index(queries);
            queries = scale->inputs[0];
        }
        const auto q = head(queries, head_dim);
        if (!q) return {};
        found.q = *q;
        if (!is_first_reader(n, write->output)) return found;
        found.written = written(*write, *q, head_dim);
        return found.written ? std::optional(found) : std::nullopt;
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
