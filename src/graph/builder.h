// Graph: builds a Program by calling ops on tensors; a model's forward pass is written with it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ops.h"
#include "graph/program.h"

namespace tandem::graph {

// A value of the Program under construction.
struct Tensor {
    ValueId id = -1;
    explicit operator bool() const { return id >= 0; }
};

// Rows [first, first + count) of the matrix of every expert, which is how gate and up may lie in one.
struct ExpertMatrix {
    Tensor weight;  // [experts, out, in]
    int64_t first = 0;
    int64_t count = 0;
    Tensor scale = {};  // [experts], where there is one
    Tensor bias = {};   // [experts, out], where there is one
};

class Graph {
  public:
    Tensor input(std::string_view name, TensorType type);
    Tensor weight(std::string_view name, TensorType type);  // the same name gives the same tensor
    // embed() and linear() multiply what they take from the matrix with `factor`.
    void set_factor(Tensor matrix, float factor) { factors_[matrix.id] = factor; }

    Tensor tokens() { return input(kTokens, {DType::i32, {Dim::tokens()}}); }
    Tensor positions() { return input(kPositions, {DType::i32, {Dim::tokens()}}); }
    Tensor output_rows() { return input(kOutputRows, {DType::i32, {Dim::outputs()}}); }

    // A layer of the key-value cache; its number goes into KvWrite and Attention.
    int cache(int kv_heads, int head_dim, int window);

    // Any op; the named ones below only spell it shorter.
    Tensor apply(Op op, const std::vector<Tensor>& inputs);

    Tensor embed(Tensor table, Tensor ids, float scale = 1.0F) {
        return apply(op::Embed{scale * factor(table)}, {table, ids});
    }
    Tensor rms_norm(Tensor x, Tensor weight, float eps) { return apply(op::RmsNorm{eps}, {x, weight}); }
    // Of each `width` elements, without a weight.
    Tensor bare_norm(Tensor x, int width, float eps) { return apply(op::RmsNorm{eps, width}, {x}); }
    Tensor linear(Tensor weight, Tensor x, Tensor bias = {});
    Tensor rope(Tensor x, Tensor positions, op::Rope rope) { return apply(std::move(rope), {x, positions}); }
    Tensor scale_by_position(Tensor x, op::ScaleByPosition scale) { return apply(scale, {x, positions()}); }
    Tensor kv_write(Tensor k, Tensor v, int cache) { return apply(op::KvWrite{cache}, {k, v}); }
    Tensor attention(Tensor q, Tensor written, op::Attention attention, Tensor sinks = {}) {
        return sinks ? apply(attention, {q, written, sinks}) : apply(attention, {q, written});
    }
    Tensor glu(Tensor gate, Tensor up, op::Activation activation) { return apply(op::Glu{activation}, {gate, up}); }
    Tensor add(Tensor a, Tensor b) { return apply(op::Add{}, {a, b}); }
    Tensor scale(Tensor x, float factor) { return factor == 1.0F ? x : apply(op::Scale{factor}, {x}); }
    Tensor columns(Tensor x, int64_t first, int64_t count) { return apply(op::Columns{first, count}, {x}); }
    Tensor select_rows(Tensor x, Tensor rows) { return apply(op::SelectRows{}, {x, rows}); }
    Tensor softcap(Tensor x, float cap) { return apply(op::Softcap{cap}, {x}); }
    Tensor sigmoid_gate(Tensor x, Tensor gate) { return apply(op::SigmoidGate{}, {x, gate}); }
    Tensor route(Tensor logits, op::Route route, Tensor bias = {}) {
        return bias ? apply(route, {logits, bias}) : apply(route, {logits});
    }
    Tensor expert_linear(const ExpertMatrix& matrix, Tensor x, Tensor routing);
    Tensor expert_sum(Tensor x, Tensor routing) { return apply(op::ExpertSum{}, {x, routing}); }
    Tensor sample(Tensor logits) { return apply(op::Sample{}, {logits}); }

    void result(std::string name, Tensor value);

    const TensorType& type(Tensor tensor) const { return program_.value(tensor.id).type; }
    Program finish() && { return std::move(program_); }

  private:
    Tensor named(Value::Kind kind, std::string_view name, TensorType type);
    float factor(Tensor matrix) const;

    Program program_;
    std::map<ValueId, float> factors_;
};

}  // namespace tandem::graph
