// Penalties, logit bias, what is allowed, temperature, top-k, top-p, min-p, then the argmax of what is left plus Gumbel
// noise.
#include "cpu/sample.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
    int32_t token;
    float logit;         // less the largest, over the temperature: the largest is 0
    double probability;  // relative to that of the largest
};

void apply_penalties(std::span<float> logits, const device::SamplingRow& row, std::span<int32_t> counts) {
    const device::SamplingParams& params = *row.params;
    const auto exists = [&](int32_t token) { return token >= 0 && static_cast<size_t>(token) < logits.size(); };
    for (int32_t token : row.history) {
        if (exists(token)) counts[static_cast<size_t>(token)] = 0;
    }
    for (int32_t token : row.history) {
        if (exists(token)) ++counts[static_cast<size_t>(token)];
    }
    for (int32_t token : row.history) {
        if (!exists(token) || counts[static_cast<size_t>(token)] == 0) continue;  // not one of ours, or done
        float& logit = logits[static_cast<size_t>(token)];
        const auto count = static_cast<float>(counts[static_cast<size_t>(token)]);
        logit = logit > 0.0F ? logit / params.repetition_penalty : logit * params.repetition_penalty;
        logit -= params.presence_penalty + count * params.frequency_penalty;
        counts[static_cast<size_t>(token)] = 0;
    }
}

// Minus infinity to what may not be drawn; mostly whole words of the mask are alike.
void forbid(std::span<float> logits, std::span<const uint32_t> allowed) {
    for (size_t begin = 0; begin < logits.size() && !allowed.empty(); begin += 32) {
        const uint32_t word = allowed[begin / 32];
        if (word == ~0U) continue;
        const size_t end = std::min(begin + 32, logits.size());
        for (size_t i = begin; i < end; ++i) {
            if (((word >> (i - begin)) & 1U) == 0) logits[i] = -kInfinity;
        }
    }
}

// Differences of logits must be numbers, so infinity becomes the largest finite one and NaN minus infinity.
float make_comparable(float logit) {
    return std::isnan(logit) ? -kInfinity : std::min(logit, std::numeric_limits<float>::max());
}

// Most likely first; the lower token id first among equals.
std::vector<Candidate> sorted_candidates(std::span<const float> logits, float temperature) {
    const float largest = *std::max_element(logits.begin(), logits.end());
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < logits.size(); ++i) {
        const float logit = (logits[i] - largest) / temperature;
        candidates.push_back({static_cast<int32_t>(i), logit, std::exp(double{logit})});
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    return candidates;
}

void keep_top_k(std::vector<Candidate>& candidates, int k) {
    if (k > 0 && static_cast<size_t>(k) < candidates.size()) candidates.resize(static_cast<size_t>(k));
}

void keep_top_p(std::vector<Candidate>& candidates, float p) {
    if (!(p < 1.0F)) return;
    double total = 0.0;
    for (const Candidate& candidate : candidates) total += candidate.probability;
    double sum = 0.0;
    size_t kept = 0;
    while (kept < candidates.size() && (kept == 0 || sum < p * total)) sum += candidates[kept++].probability;
    candidates.resize(kept);
}

void keep_min_p(std::vector<Candidate>& candidates, float min_p) {
    const auto unlikely = [&](const Candidate& candidate) { return candidate.probability < min_p; };
    candidates.erase(std::find_if(candidates.begin() + 1, candidates.end(), unlikely), candidates.end());
}

int32_t draw(const std::vector<Candidate>& candidates, const device::SamplingRow& row) {
    int32_t best = candidates.front().token;
    float best_value = -kInfinity;
    for (const Candidate& candidate : candidates) {
        const float value = candidate.logit + gumbel_noise(row, candidate.token);
        if (value > best_value || (value == best_value && candidate.token < best)) {
            best = candidate.token;
            best_value = value;
        }
    }
    return best;
}

void sample(const op::Sample& /*op*/, const Args& args) {
    const Input& logits = args.in[0];
    for (int64_t r = 0; r < logits.rows; ++r) {
        args.out.i32()[r] = sample_row({logits.f32(r), static_cast<size_t>(logits.cols)},
                                       args.step.batch->sampling[static_cast<size_t>(r)]);
    }
}

const Registration<op::Sample> kSampleReference{sample};

}  // namespace

void adjust_logits(std::span<float> logits, const device::SamplingRow& row, std::span<int32_t> counts) {
    const device::SamplingParams& params = *row.params;
    if (params.penalizes()) apply_penalties(logits, row, counts);
    for (const auto& [token, bias] : params.logit_bias) {
        if (token >= 0 && static_cast<size_t>(token) < logits.size()) logits[static_cast<size_t>(token)] += bias;
    }
    forbid(logits, row.allowed);
}

int32_t first_allowed(const device::SamplingRow& row) {
    int32_t token = 0;
    while (!row.allows(token)) ++token;
    return token;
}

float gumbel_noise(const device::SamplingRow& row, int32_t token) {
    return -std::log(-std::log(device::sampling_uniform(row.params->seed, row.draw, token)));
}

int32_t sample_row(std::span<const float> logits, const device::SamplingRow& row) {
    const device::SamplingParams& params = *row.params;
    std::vector<float> adjusted(logits.begin(), logits.end());
    std::vector<int32_t> counts(logits.size());
    adjust_logits(adjusted, row, counts);
    for (float& logit : adjusted) logit = make_comparable(logit);
    const auto largest = std::max_element(adjusted.begin(), adjusted.end());  // the first of equals
    if (*largest == -kInfinity) return first_allowed(row);
    if (!(params.temperature > 0.0F)) return static_cast<int32_t>(largest - adjusted.begin());

    std::vector<Candidate> candidates = sorted_candidates(adjusted, params.temperature);
    keep_top_k(candidates, params.top_k);
    keep_top_p(candidates, params.top_p);
    keep_min_p(candidates, params.min_p);
    return draw(candidates, row);
}

}  // namespace tandem::cpu
