// Route and ExpertSum with all threads: rows of plain loops that a compiler can widen.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"
#include "graph/ops.h"

namespace tandem::cpu::simd {

namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();  // what is not to be chosen, or no more
constexpr float kLeast = std::numeric_limits<float>::lowest();   // of all others

void softmax(float* x, int64_t count) {
    const float largest = *std::max_element(x, x + count);
    float sum = 0.0F;
    for (int64_t i = 0; i < count; ++i) sum += x[i] = std::exp(x[i] - largest);
    for (int64_t i = 0; i < count; ++i) x[i] /= sum;
}

// The largest, the first of those that are the same.
int64_t best_of(const float* values, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) best = values[i] > values[best] ? i : best;
    return best;
}

void keep_groups(const op::Route& op, float* values, int64_t experts) {
    const int64_t size = experts / op.groups;
    const auto worth = [&](int64_t group) {
        float two[2] = {kOut, kOut};
        for (int64_t i = group * size; i < (group + 1) * size; ++i) {
            if (values[i] > two[1]) two[1] = values[i];
            if (two[1] > two[0]) std::swap(two[0], two[1]);
        }
        return size > 1 ? two[0] + two[1] : two[0];
    };
    // A group stays if fewer than used_groups are better, or as good and before it.
    uint64_t kept = 0;
    for (int64_t g = 0; g < op.groups; ++g) {
        int before = 0;
        for (int64_t other = 0; other < op.groups; ++other)
            before += other != g && (worth(other) > worth(g) || (worth(other) == worth(g) && other < g)) ? 1 : 0;
        if (before < op.used_groups) kept |= uint64_t{1} << g;
    }
    for (int64_t i = 0; i < experts; ++i) {
        if ((kept >> (i / size) & 1) == 0) values[i] = kOut;
    }
}

// `scores` and `values` have room for all experts.
void route_row(const op::Route& op, const float* bias, int64_t experts, float* scores, float* values, float* out) {
    if (op.score == op::Score::softmax) softmax(scores, experts);
    for (int64_t i = 0; i < experts && op.score == op::Score::sigmoid; ++i)
        scores[i] = 1.0F / (1.0F + std::exp(-scores[i]));
    // What is no number is the least, so that the experts of a row always differ.
    for (int64_t i = 0; i < experts; ++i) {
        const float value = scores[i] + (bias != nullptr ? bias[i] : 0.0F);
        values[i] = value > kLeast ? value : kLeast;
    }
    if (op.groups > 1) keep_groups(op, values, experts);
    float* const weights = out + op.used;
    for (int slot = 0; slot < op.used; ++slot) {
        const int64_t best = best_of(values, experts);
        values[best] = kOut;
        out[slot] = static_cast<float>(best);
        weights[slot] = scores[best];
    }
    if (op.score == op::Score::chosen_softmax) softmax(weights, op.used);
    float sum = 1e-20F;
    for (int slot = 0; slot < op.used; ++slot) sum += weights[slot];
    const float factor = op.normalize ? op.scale / sum : op.scale;
    for (int slot = 0; slot < op.used; ++slot) weights[slot] *= factor;
}

bool supports_route(const op::Route& op, graph::InputTypes /*inputs*/) {
    return op.groups <= 64;
}

size_t route_scratch(const op::Route& /*op*/, const NodePlan& plan) {
    return static_cast<size_t>(plan.threads * plan.inputs[0].cols() * 2) * sizeof(float);
}

void route(const op::Route& op, const Args& args) {
    const float* const bias = args.in.size() > 1 ? args.in[1].f32() : nullptr;
    const int64_t experts = args.in[0].cols;
    auto* const scratch = reinterpret_cast<float*>(args.step.scratch.data());
    args.step.for_each_range(args.out.rows, kPieceElements / (experts * op.used) + 1,
                             [&](int64_t begin, int64_t end, int thread) {
                                 float* const scores = scratch + 2 * experts * thread;
                                 for (int64_t r = begin; r < end; ++r) {
                                     std::copy_n(args.in[0].f32(r), experts, scores);
                                     route_row(op, bias, experts, scores, scores + experts, args.out.f32(r));
                                 }
                             });
}

void expert_sum(const op::ExpertSum& /*op*/, const Args& args) {
    const int64_t used = args.in[1].cols / 2;
    const int64_t cols = args.out.cols;
    const auto sum_row = [&](int64_t r) {
        const float* const x = args.in[0].f32(r);
        const float* const weights = args.in[1].f32(r) + used;
        float* const y = args.out.f32(r);
        for (int64_t c = 0; c < cols; ++c) y[c] = weights[0] * x[c];
        for (int64_t s = 1; s < used; ++s) {
            for (int64_t c = 0; c < cols; ++c) y[c] += weights[s] * x[s * cols + c];
        }
    };
    args.step.for_each_range(args.out.rows, kPieceElements / args.in[0].cols + 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) sum_row(r);
    });
}

const Registration<op::Route> kRoute{FastKernel<op::Route>{route, supports_route, route_scratch}};
const Registration<op::ExpertSum> kExpertSum{FastKernel<op::ExpertSum>{.run = expert_sum}};

}  // namespace

}  // namespace tandem::cpu::simd
