// The experts of each row: scores of the logits, the best of them by score + bias, and their weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

// exp(x - largest) / sum
void softmax(std::vector<float>& x) {
    const float largest = *std::max_element(x.begin(), x.end());
    double sum = 0.0;
    for (const float value : x) sum += std::exp(double{value} - largest);
    for (float& value : x) value = static_cast<float>(std::exp(double{value} - largest) / sum);
}

// The `count` largest, best first; of two the same, the one with the lower number.
std::vector<size_t> best(const std::vector<float>& values, size_t count) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
    order.resize(count);
    return order;
}

// Leaves only the groups whose two best experts add up to most.
void keep_groups(const op::Route& op, std::vector<float>& values) {
    const size_t size = values.size() / static_cast<size_t>(op.groups);
    std::vector<float> worth;
    for (size_t g = 0; g < static_cast<size_t>(op.groups); ++g) {
        std::vector<float> group(values.begin() + g * size, values.begin() + (g + 1) * size);
        std::sort(group.begin(), group.end(), std::greater<>());
        worth.push_back(group[0] + (size > 1 ? group[1] : 0.0F));
    }
    const std::vector<size_t> kept = best(worth, static_cast<size_t>(op.used_groups));
    for (size_t i = 0; i < values.size(); ++i) {
        if (std::find(kept.begin(), kept.end(), i / size) == kept.end())
            values[i] = -std::numeric_limits<float>::infinity();
    }
}

void route_row(const op::Route& op, const float* logits, const float* bias, size_t experts, float* out) {
    std::vector<float> scores(logits, logits + experts);
    if (op.score == op::Score::softmax) softmax(scores);
    if (op.score == op::Score::sigmoid) {
        for (float& score : scores) score = 1.0F / (1.0F + std::exp(-score));
    }
    // What is no number is the least, so that the experts of a row always differ.
    std::vector<float> values(experts, std::numeric_limits<float>::lowest());
    for (size_t i = 0; i < experts; ++i) {
        const float value = scores[i] + (bias != nullptr ? bias[i] : 0.0F);
        if (value > values[i]) values[i] = value;
    }
    if (op.groups > 1) keep_groups(op, values);

    const std::vector<size_t> chosen = best(values, static_cast<size_t>(op.used));
    std::vector<float> weights;
    for (const size_t expert : chosen) weights.push_back(scores[expert]);
    if (op.score == op::Score::chosen_softmax) softmax(weights);
    // What is added keeps weights that are all 0 from becoming no numbers.
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0) + 1e-20;
    for (size_t i = 0; i < chosen.size(); ++i) {
        out[i] = static_cast<float>(chosen[i]);
        out[chosen.size() + i] = static_cast<float>((op.normalize ? weights[i] / sum : weights[i]) * op.scale);
    }
}

void route(const op::Route& op, const Args& args) {
    const float* const bias = args.in.size() > 1 ? args.in[1].f32() : nullptr;
    const auto experts = static_cast<size_t>(args.in[0].cols);
    for (int64_t r = 0; r < args.out.rows; ++r) route_row(op, args.in[0].f32(r), bias, experts, args.out.f32(r));
}

const Registration<op::Route> kRouteReference{route};

}  // namespace

}  // namespace tandem::cpu
