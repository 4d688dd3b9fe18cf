// y = softmax(scale * q k^T) v for each row and head, over the positions of the row's sequence up to its own and, with
// a window, fewer than `window` before it; a sink is one more score in the softmax, without a value.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/kernel.h"
#include "format/quant.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

// The keys and values that one head of one sequence sees, decoded to f32.
struct History {
    std::vector<float> k;  // [positions, head_dim]
    std::vector<float> v;
};

History read_history(const op::Attention& op, const Step& step, const device::SequenceRows& sequence, int kv_head) {
    const PagedCache& cache = *step.cache;
    const int block_tokens = cache.shape().block_tokens;
    const int32_t positions = sequence.past + sequence.rows;
    const int32_t first = op.window == 0 ? 0 : std::max(0, sequence.past + 1 - op.window);
    const auto group = static_cast<size_t>(cache.layer(op.cache).group);
    const size_t size = static_cast<size_t>(positions) * static_cast<size_t>(op.head_dim);
    History history{std::vector<float>(size), std::vector<float>(size)};
    for (int32_t p = first; p < positions; ++p) {
        const int32_t block = sequence.blocks[group][static_cast<size_t>(p / block_tokens)];
        const size_t slot = static_cast<size_t>(p % block_tokens) * row_bytes(cache.shape().dtype, op.head_dim);
        const int64_t to = int64_t{p} * op.head_dim;
        format::decode_row(cache.shape().dtype, cache.keys(op.cache, block, kv_head) + slot, history.k.data() + to,
                           op.head_dim);
        format::decode_row(cache.shape().dtype, cache.values(op.cache, block, kv_head) + slot, history.v.data() + to,
                           op.head_dim);
    }
    return history;
}

double score(const op::Attention& op, const float* q, const float* k) {
    double dot = 0.0;
    for (int i = 0; i < op.head_dim; ++i) dot += double{q[i]} * k[i];
    const double scaled = dot * op.scale;
    return op.softcap == 0.0F ? scaled : op.softcap * std::tanh(scaled / op.softcap);
}

// `sink` may be null.
void attend(const op::Attention& op, const History& history, int32_t position, const float* q, const float* sink,
            float* y) {
    const int32_t first = op.window == 0 ? 0 : std::max(0, position + 1 - op.window);
    std::vector<double> weights;
    for (int32_t p = first; p <= position; ++p)
        weights.push_back(score(op, q, history.k.data() + int64_t{p} * op.head_dim));

    double largest = *std::max_element(weights.begin(), weights.end());
    if (sink != nullptr) largest = std::max(largest, double{*sink});
    double sum = sink != nullptr ? std::exp(*sink - largest) : 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);

    for (int i = 0; i < op.head_dim; ++i) {
        double y_i = 0.0;
        for (int32_t p = first; p <= position; ++p)
            y_i += weights[static_cast<size_t>(p - first)] * history.v[static_cast<size_t>(p) * op.head_dim + i];
        y[i] = static_cast<float>(y_i / sum);
    }
}

void attention(const op::Attention& op, const Args& args) {
    for (const device::SequenceRows& sequence : args.step.batch->sequences) {
        for (int head = 0; head < op.heads; ++head) {
            const int kv_head = head / (op.heads / op.kv_heads);
            const History history = read_history(op, args.step, sequence, kv_head);
            const int64_t column = int64_t{head} * op.head_dim;
            const float* const sink = args.in.size() > 2 ? args.in[2].f32() + head : nullptr;
            for (int32_t r = 0; r < sequence.rows; ++r) {
                const int64_t row = sequence.first_row + r;
                attend(op, history, sequence.past + r, args.in[0].f32(row) + column, sink, args.out.f32(row) + column);
            }
        }
    }
}

const Registration<op::Attention> kAttentionReference{attention};

}  // namespace

}  // namespace tandem::cpu
