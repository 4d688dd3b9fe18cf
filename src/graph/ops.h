// The ops of a Program: their attributes and shape rules. cpu/<op>.cpp holds the readable meaning of each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace tandem::op {

using graph::InputTypes;
using graph::StepShape;
using graph::TensorType;
using graph::Work;

// (table [vocab, dim], ids [tokens]) -> [tokens, dim]: scale * table[id]
struct Embed {
    static constexpr std::string_view kName = "embed";
    float scale = 1.0F;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (x [rows, n * width], weight [width]) -> as x: each group of `width` divided by its root mean square, times weight.
// With width == cols this is the usual norm of a row; with width == head_dim that of every head. The weight may be left
// out: the groups are then `width` wide and multiplied with nothing.
struct RmsNorm {
    static constexpr std::string_view kName = "rms_norm";
    float eps = 1e-6F;
    int width = 0;  // of a norm without a weight

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (weight [out, in], x [rows, in]) or (weight, x, bias [out]) -> [rows, out]: x * weight^T + bias
struct Linear {
    static constexpr std::string_view kName = "linear";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
    Work work(InputTypes in, const StepShape& step) const;
};

// Which two elements of a head form the pair that is turned: i and i + half, or 2i and 2i + 1.
enum class RopeLayout : uint8_t { half, interleaved };

// (x [tokens, heads * head_dim], positions [tokens]) -> as x: pair i of each head is turned by
// position * inv_freq[i] and scaled by `magnitude`; what is past 2 * inv_freq.size() in a head stays as it is.
// Every kind of rope scaling is a choice of inv_freq and magnitude.
struct Rope {
    static constexpr std::string_view kName = "rope";
    int head_dim = 0;
    RopeLayout layout = RopeLayout::half;
    float magnitude = 1.0F;
    std::vector<float> inv_freq;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (x [tokens, cols], positions [tokens]) -> as x: (1 + growth * ln(1 + floor(position / every))) * x
struct ScaleByPosition {
    static constexpr std::string_view kName = "scale_by_position";
    float growth = 0.0F;
    int every = 1;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (k [tokens, kv_heads * head_dim], v [tokens, kv_heads * head_dim]) -> an empty value: writes each row into cache
// layer `cache` at its sequence's position. The empty value orders what reads the cache after the write.
struct KvWrite {
    static constexpr std::string_view kName = "kv_write";
    int cache = 0;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (q [tokens, heads * head_dim], the value of a KvWrite into the same cache layer, of whichever layer of the model) ->
// as q: softmax(scale * q k^T) v over the positions of the row's own sequence that are not later than the row and, with
// a window, fewer than `window` before it. A third input [heads] has a sink for each head: one more score in the
// softmax, without a value.
struct Attention {
    static constexpr std::string_view kName = "attention";
    int cache = 0;
    int heads = 0;
    int kv_heads = 0;
    int head_dim = 0;
    float scale = 1.0F;
    int window = 0;        // 0: all positions
    float softcap = 0.0F;  // 0: none; else scores become softcap * tanh(score / softcap)

    TensorType infer(InputTypes in) const;
    std::string describe() const;
    Work work(InputTypes in, const StepShape& step) const;
};

// clamped: of gpt-oss, with g = min(gate, 7): g * sigmoid(1.702 * g), and up is clamped to -7 .. 7 and has 1 added.
enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, clamped };

// (gate, up) -> activation(gate) * up
struct Glu {
    static constexpr std::string_view kName = "glu";
    Activation activation = Activation::silu;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (a, b) -> a + b
struct Add {
    static constexpr std::string_view kName = "add";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (x [tokens, cols], rows [outputs]) -> [outputs, cols]: the rows whose logits are wanted
struct SelectRows {
    static constexpr std::string_view kName = "select_rows";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// x [rows, cols] -> [rows, count]: the columns from `first` on
struct Columns {
    static constexpr std::string_view kName = "columns";
    int64_t first = 0;
    int64_t count = 0;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// x -> cap * tanh(x / cap)
struct Softcap {
    static constexpr std::string_view kName = "softcap";
    float cap = 1.0F;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (x [rows, cols], bias [cols]) -> factor * x + bias; the bias may be left out
struct Scale {
    static constexpr std::string_view kName = "scale";
    float factor = 1.0F;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (x [rows, cols], gate [rows, n]) -> as x: each of a row's n equal parts times the sigmoid of its gate
struct SigmoidGate {
    static constexpr std::string_view kName = "sigmoid_gate";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// How the router's logits become scores. chosen_softmax: experts are chosen by their logits, and only the chosen ones
// share a softmax.
enum class Score : uint8_t { softmax, sigmoid, chosen_softmax };

// (logits [rows, experts]) or (logits, bias [experts]) -> [rows, 2 * used]: the numbers of the experts that a row goes
// to, best first, and then their weights. The best are those with the largest score plus bias, of two the same the one
// with the lower number; the bias has no part in the weights. With groups, only the `used_groups` are looked at whose
// two best add up to most.
struct Route {
    static constexpr std::string_view kName = "route";
    int used = 1;
    Score score = Score::softmax;
    bool normalize = false;  // the weights of a row are divided by their sum
    float scale = 1.0F;      // and then multiplied
    int groups = 1;          // of neighbours, all of one size
    int used_groups = 1;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// (weight [experts, out, in], x [rows, in] or [rows, used * in], routing of Route [, scale [experts]][, bias [experts,
// out]]) -> [rows, used * n]: for each of a row's experts e in turn x * weight[e]^T * scale[e] + bias[e]. x is the same
// for all of them, or there is one for each. Of the `out` rows of a matrix, the n from `first` on are multiplied, which
// is how gate and up are told apart where they lie in one; the bias has all `out`.
struct ExpertLinear {
    static constexpr std::string_view kName = "expert_linear";
    int64_t first = 0;
    int64_t count = 0;  // n
    bool scaled = false;
    bool biased = false;

    TensorType infer(InputTypes in) const;
    std::string describe() const;
    Work work(InputTypes in, const StepShape& step) const;

    // Where scale and bias are among the inputs.
    static constexpr size_t kScale = 3;
    size_t bias_at() const { return scaled ? 4 : 3; }
};

// (x [rows, used * cols], routing) -> [rows, cols]: the sum of what a row's experts made, each times its weight
struct ExpertSum {
    static constexpr std::string_view kName = "expert_sum";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

// logits [outputs, vocab] -> i32 [outputs]: one token per row, drawn as the step's sampling parameters say.
struct Sample {
    static constexpr std::string_view kName = "sample";

    TensorType infer(InputTypes in) const;
    std::string describe() const;
};

}  // namespace tandem::op
