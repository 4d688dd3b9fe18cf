// Binder: finds a model's weights in its checkpoint, checks them against the configuration and names them in the graph.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "graph/builder.h"
#include "graph/weights.h"

namespace tandem::models {

inline constexpr int kNoLayer = -1;

// A weight under both its names, without what is before them in all names: "attn_q.weight" of blk.N. and
// "self_attn.q_proj.weight" of model.layers.N.
struct WeightName {
    std::string_view gguf;
    std::string_view hf;
};

inline constexpr WeightName kEmbedding{"token_embd.weight", "embed_tokens.weight"};

// Null when the checkpoint has no such tensor.
const format::TensorRecord* find_tensor(const format::Checkpoint& checkpoint, int layer, const WeightName& name);

// The name of the tensor that a weight is in: all of it, or rows of it.
std::string_view whole_name(std::string_view name);

// The first problem sticks; after it all tensors are empty, so bind everything and ask for status() before building.
class Binder {
  public:
    Binder(const format::Checkpoint& checkpoint, graph::Graph& g) : checkpoint_(&checkpoint), graph_(&g) {}

    bool is_gguf() const { return checkpoint_->gguf() != nullptr; }
    const format::Checkpoint& checkpoint() const { return *checkpoint_; }
    bool has(int layer, const WeightName& name) const { return find_tensor(*checkpoint_, layer, name) != nullptr; }

    // A matrix [rows, cols] in whatever type it is stored. A factor for all of it, which NVFP4 files have, goes into
    // the graph; one for the activations, which other kernels round, has no use here.
    graph::Tensor matrix(int layer, const WeightName& name, int64_t rows, int64_t cols);
    // Rows of a matrix [all, cols] that holds several, one below the other. A name of its own, "NAME[first:end]", says
    // which they are (whole_name() is NAME).
    struct Rows {
        int64_t first = 0;
        int64_t count = 0;
        int64_t all = 0;
    };
    graph::Tensor rows(int layer, const WeightName& name, const Rows& rows, int64_t cols);
    // The same for every expert, [experts, rows, cols]: in one tensor, or in one for each, where `name.hf` has {} for
    // the number (and where a GGUF file is old). A file's `.scale`, one number for each expert or for all, is in
    // `scale`.
    graph::ExpertMatrix experts(int layer, const WeightName& name, const std::vector<int64_t>& shape);
    // A matrix of one row as f32, which a GGUF file has as a vector.
    graph::Tensor row(int layer, const WeightName& name, int64_t cols);
    // The rows of the tokens, [vocab, dim], and the matrix that makes logits, which may be the same one: a GGUF file
    // then leaves it out, config.json says that it is `tied`.
    graph::Tensor embedding(int64_t vocab, int64_t dim);
    graph::Tensor output(int64_t vocab, int64_t dim, bool tied);
    // A norm's weight or a bias, [count], as f32 whatever it is stored in, with `offset` added to each.
    graph::Tensor vector(int layer, const WeightName& name, int64_t count, float offset = 0.0F) {
        return floats(layer, name, {count}, offset);
    }
    // The same with a row for each expert, [experts, count].
    graph::Tensor vectors(int layer, const WeightName& name, int64_t experts, int64_t count) {
        return floats(layer, name, {experts, count}, 0.0F);
    }
    // A single number.
    float scalar(int layer, const WeightName& name);
    // What the caller made of the checkpoint's tensors, under the name it has in a GGUF file.
    graph::Tensor made(int layer, std::string_view gguf, DType dtype, std::vector<int64_t> shape,
                       std::vector<std::byte> bytes);
    // The tensor, after the same checks; null when there is a problem.
    const format::TensorRecord* find(int layer, const WeightName& name, const std::vector<int64_t>& shape);
    void reject(std::string problem);
    Status status() const;

    uint64_t parameters() const { return parameters_; }
    graph::Weights take_weights() && { return std::move(weights_); }

    // A tensor of bytes of a Hugging Face checkpoint; null when there is none.
    const format::ForeignTensor* find_bytes(int layer, std::string_view hf) const;

  private:
    graph::Tensor bind(std::string canonical, const format::TensorRecord& tensor, const Rows& rows);
    graph::Tensor floats(int layer, const WeightName& name, const std::vector<int64_t>& shape, float offset);
    void read_factor(const format::TensorRecord& matrix, graph::Tensor weight);
    // The matrices of one expert each.
    graph::WeightView find_each(int layer, const WeightName& name, const std::vector<int64_t>& shape);
    graph::Tensor read_scale(int layer, std::string_view gguf, int64_t experts);
    graph::Tensor add(std::string canonical, graph::WeightView view);
    graph::Tensor own(std::string canonical, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes);

    const format::Checkpoint* checkpoint_;
    graph::Graph* graph_;
    graph::Weights weights_;
    uint64_t parameters_ = 0;
    std::string error_;
};

}  // namespace tandem::models
