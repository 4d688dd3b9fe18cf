#include "graph/builder.h"

#include "base/check.h"

namespace tandem::graph {

Tensor Graph::named(Value::Kind kind, std::string_view name, TensorType type) {
    // Weights are named in the order of use, so the one asked for again is nearly always among the last; a
    // linear search from the back is short and a Program has a few hundred names at most.
    for (size_t i = program_.values.size(); i-- > 0;) {
        const Value& value = program_.values[i];
        if (value.kind != kind || value.name != name) continue;
        CHECK(value.type == type, "one name, two types");
        return {static_cast<ValueId>(i)};
    }
    program_.values.push_back({.kind = kind, .type = std::move(type), .name = std::string(name)});
    return {static_cast<ValueId>(program_.values.size() - 1)};
}

Tensor Graph::input(std::string_view name, TensorType type) {
    return named(Value::Kind::input, name, std::move(type));
}

Tensor Graph::weight(std::string_view name, TensorType type) {
    return named(Value::Kind::weight, name, std::move(type));
}

int Graph::cache(int kv_heads, int head_dim, int window) {
    int group = program_.cache_groups();
    for (const CacheLayer& layer : program_.caches) {
        if (layer.window == window) group = layer.group;
    }
    program_.caches.push_back({.kv_heads = kv_heads, .head_dim = head_dim, .window = window, .group = group});
    return static_cast<int>(program_.caches.size()) - 1;
}

Tensor Graph::apply(Op op, const std::vector<Tensor>& inputs) {
    std::vector<TensorType> types;
    std::vector<ValueId> ids;
    for (Tensor input : inputs) {
        types.push_back(type(input));
        ids.push_back(input.id);
    }
    const auto output = static_cast<ValueId>(program_.values.size());
    program_.values.push_back({.kind = Value::Kind::computed, .type = op.infer(types), .name = ""});
    program_.nodes.push_back({.op = std::move(op), .inputs = std::move(ids), .output = output});
    return {output};
}

float Graph::factor(Tensor matrix) const {
    const auto found = factors_.find(matrix.id);
    return found == factors_.end() ? 1.0F : found->second;
}

Tensor Graph::linear(Tensor weight, Tensor x, Tensor bias) {
    if (const float scale = factor(weight); scale != 1.0F) {
        const Tensor y = apply(op::Linear{}, {weight, x});
        return bias ? apply(op::Scale{scale}, {y, bias}) : apply(op::Scale{scale}, {y});
    }
    return bias ? apply(op::Linear{}, {weight, x, bias}) : apply(op::Linear{}, {weight, x});
}

Tensor Graph::expert_linear(const ExpertMatrix& matrix, Tensor x, Tensor routing) {
    std::vector<Tensor> inputs = {matrix.weight, x, routing};
    if (matrix.scale) inputs.push_back(matrix.scale);
    if (matrix.bias) inputs.push_back(matrix.bias);
    return apply(op::ExpertLinear{.first = matrix.first,
                                  .count = matrix.count,
                                  .scaled = static_cast<bool>(matrix.scale),
                                  .biased = static_cast<bool>(matrix.bias)},
                 inputs);
}

void Graph::result(std::string name, Tensor value) {
    program_.results.push_back({std::move(name), value.id});
}

}  // namespace tandem::graph
