// Sample without sorting the vocabulary: candidates are gathered by thresholds, and only they are sorted.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/sample.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/kernel.h"
#include "cpu/sample.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Makes NaN minus infinity and infinity a number; returns the largest.
float make_comparable(std::span<float> logits) {
    const hn::ScalableTag<float> d;
    const size_t step = hn::Lanes(d);
    const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
    const auto highest = hn::Set(d, std::numeric_limits<float>::max());
    auto largest = lowest;
    size_t i = 0;
    for (; i + step <= logits.size(); i += step) {
        const auto v = hn::LoadU(d, logits.data() + i);
        const auto clean = hn::IfThenElse(hn::IsNaN(v), lowest, hn::Min(v, highest));
        hn::StoreU(clean, d, logits.data() + i);
        largest = hn::Max(largest, clean);
    }
    float result = hn::GetLane(hn::MaxOfLanes(d, largest));
    for (; i < logits.size(); ++i) {
        float& v = logits[i];
        v = std::isnan(v) ? -std::numeric_limits<float>::infinity() : std::min(v, std::numeric_limits<float>::max());
        result = std::max(result, v);
    }
    return result;
}

// (logit - largest) / temperature
void scale_logits(std::span<float> logits, float largest, float temperature) {
    const hn::ScalableTag<float> d;
    const size_t step = hn::Lanes(d);
    size_t i = 0;
    for (; i + step <= logits.size(); i += step) {
        const auto v = hn::Sub(hn::LoadU(d, logits.data() + i), hn::Set(d, largest));
        hn::StoreU(hn::Div(v, hn::Set(d, temperature)), d, logits.data() + i);
    }
    for (; i < logits.size(); ++i) logits[i] = (logits[i] - largest) / temperature;
}

// The sum of exp(logit), in double from one piece to the next.
double sum_of_exp(std::span<const float> logits) {
    const hn::ScalableTag<float> d;
    const size_t step = hn::Lanes(d);
    double total = 0.0;
    size_t i = 0;
    while (i + step <= logits.size()) {
        const size_t piece_end = std::min(logits.size(), i + 256 * step);
        auto sum = hn::Zero(d);
        for (; i + step <= piece_end; i += step) sum = hn::Add(sum, hn::Exp(d, hn::LoadU(d, logits.data() + i)));
        total += hn::GetLane(hn::SumOfLanes(d, sum));
    }
    for (; i < logits.size(); ++i) total += std::exp(double{logits[i]});
    return total;
}

// The first index >= `from` with a logit above `threshold`, or the size.
size_t find_above(std::span<const float> logits, size_t from, float threshold) {
    const hn::ScalableTag<float> d;
    const size_t step = hn::Lanes(d);
    const auto limit = hn::Set(d, threshold);
    for (; from + step <= logits.size(); from += step) {
        const auto above = hn::Gt(hn::LoadU(d, logits.data() + from), limit);
        const intptr_t first = hn::FindFirstTrue(d, above);
        if (first >= 0) return from + static_cast<size_t>(first);
    }
    while (from < logits.size() && !(logits[from] > threshold)) ++from;
    return from;
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(make_comparable);
HWY_EXPORT(scale_logits);
HWY_EXPORT(sum_of_exp);
HWY_EXPORT(find_above);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMostNoise = 16.7F;  // gumbel_noise() of the largest uniform number, 1 - 2^-24, is 16.64

// Sampling one row. `logits` is a copy that may change; `ids` is as long.
class RowSampler {
  public:
    RowSampler(std::span<float> logits, std::span<int32_t> ids, const device::SamplingRow& row)
        : logits_(logits), ids_(ids), row_(row), params_(*row.params) {}

    int32_t sample() {
        adjust_logits(logits_, row_, ids_);
        const float largest = HWY_DYNAMIC_DISPATCH(make_comparable)(logits_);
        if (largest == -kInfinity) return first_allowed(row_);
        const auto first = static_cast<size_t>(std::find(logits_.begin(), logits_.end(), largest) - logits_.begin());
        if (!(params_.temperature > 0.0F)) return static_cast<int32_t>(first);
        HWY_DYNAMIC_DISPATCH(scale_logits)(logits_, largest, params_.temperature);
        most_likely_ = best_ = static_cast<int32_t>(first);
        best_value_ = gumbel_noise(row_, best_);  // its logit is now 0

        const bool some = params_.top_k > 0 && static_cast<size_t>(params_.top_k) < logits_.size();
        if (some) gather_top_k(static_cast<size_t>(params_.top_k));
        if (params_.top_p < 1.0F) {
            const double total = some ? mass() : HWY_DYNAMIC_DISPATCH(sum_of_exp)(logits_);
            if (!some) gather_mass(params_.top_p * total);
            keep_mass(params_.top_p * total);
        } else if (!some) {
            return draw_from_all();
        }
        return draw_from_candidates();
    }

  private:
    // Most likely first; the lower token id first among equals.
    auto by_likelihood() const {
        return [this](int32_t a, int32_t b) {
            return logits_[static_cast<size_t>(a)] != logits_[static_cast<size_t>(b)]
                       ? logits_[static_cast<size_t>(a)] > logits_[static_cast<size_t>(b)]
                       : a < b;
        };
    }

    double likelihood(int32_t token) const { return std::exp(double{logits_[static_cast<size_t>(token)]}); }

    double mass() const {
        double sum = 0.0;
        for (size_t i = 0; i < count_; ++i) sum += likelihood(ids_[i]);
        return sum;
    }

    // Collects what is above the k-th of those seen so far, and thins out when twice too many are there.
    void gather_top_k(size_t k) {
        const size_t most = std::min(ids_.size(), 2 * k + 256);
        float threshold = -kInfinity;
        for (size_t i = 0;; ++i) {
            i = HWY_DYNAMIC_DISPATCH(find_above)(logits_, i, threshold);
            if (i == logits_.size()) break;
            ids_[count_++] = static_cast<int32_t>(i);
            if (count_ == most) {
                keep_top(k);
                threshold = logits_[static_cast<size_t>(ids_[k - 1])];
            }
        }
        keep_top(k);
    }

    void keep_top(size_t k) {
        if (count_ <= k) return;
        std::nth_element(ids_.begin(), ids_.begin() + static_cast<int64_t>(k - 1),
                         ids_.begin() + static_cast<int64_t>(count_), by_likelihood());
        count_ = k;
    }

    // Collects the most likely tokens until they hold `wanted`, going down in ever larger steps.
    void gather_mass(double wanted) {
        for (float depth = 2.0F;; depth *= 2.0F) {
            const float threshold = depth > 200.0F ? -kInfinity : -depth;
            count_ = 0;
            double sum = 0.0;
            for (size_t i = 0; (i = HWY_DYNAMIC_DISPATCH(find_above)(logits_, i, threshold)) < logits_.size(); ++i) {
                ids_[count_++] = static_cast<int32_t>(i);
                sum += likelihood(static_cast<int32_t>(i));
            }
            if (sum >= wanted || threshold == -kInfinity) return;
        }
    }

    void keep_mass(double wanted) {
        std::sort(ids_.begin(), ids_.begin() + static_cast<int64_t>(count_), by_likelihood());
        double sum = 0.0;
        size_t kept = 0;
        while (kept < count_ && (kept == 0 || sum < wanted)) sum += likelihood(ids_[kept++]);
        count_ = kept;
    }

    // What min-p removes: never the most likely token.
    bool is_unlikely(int32_t token) const {
        return token != most_likely_ && params_.min_p > 0.0F && likelihood(token) < params_.min_p;
    }

    void consider(int32_t token) {
        const float value = logits_[static_cast<size_t>(token)] + gumbel_noise(row_, token);
        if (value > best_value_ || (value == best_value_ && token < best_)) {
            best_ = token;
            best_value_ = value;
        }
    }

    int32_t draw_from_candidates() {
        for (size_t i = 0; i < count_; ++i) {
            if (!is_unlikely(ids_[i])) consider(ids_[i]);
        }
        return best_;
    }

    // Only tokens whose logit could win with the largest noise there is are looked at; and of them, since
    // -log(u) >= 1 - u, only those with 1 - u < exp(logit - best).
    int32_t draw_from_all() {
        const float min_p_depth = params_.min_p > 0.0F ? std::log(params_.min_p) - 1e-3F : -kInfinity;
        for (size_t i = 0;; ++i) {
            const float threshold = std::max(min_p_depth, best_value_ - kMostNoise);
            i = HWY_DYNAMIC_DISPATCH(find_above)(logits_, i, threshold);
            if (i == logits_.size()) return best_;
            const auto token = static_cast<int32_t>(i);
            const float u = device::sampling_uniform(params_.seed, row_.draw, token);
            if (1.0F - u > 1.001F * std::exp(logits_[i] - best_value_) || is_unlikely(token)) continue;
            consider(token);
        }
    }

    std::span<float> logits_;
    std::span<int32_t> ids_;  // the candidates, once there are some
    const device::SamplingRow& row_;
    const device::SamplingParams& params_;
    size_t count_ = 0;
    int32_t most_likely_ = 0;
    int32_t best_ = 0;  // of the tokens considered
    float best_value_ = 0.0F;
};

size_t bytes_per_thread(int64_t vocab) {
    return static_cast<size_t>((vocab + 15) / 16 * 16) * (sizeof(float) + sizeof(int32_t));
}

size_t scratch_bytes(const op::Sample& /*op*/, const NodePlan& plan) {
    return static_cast<size_t>(plan.threads) * bytes_per_thread(plan.inputs[0].cols());
}

void sample(const op::Sample& /*op*/, const Args& args) {
    const Input& logits = args.in[0];
    const auto vocab = static_cast<size_t>(logits.cols);
    args.step.for_each_range(logits.rows, 1, [&](int64_t begin, int64_t end, int thread) {
        std::byte* own = args.step.scratch.data() + static_cast<size_t>(thread) * bytes_per_thread(logits.cols);
        const std::span<float> copy{reinterpret_cast<float*>(own), vocab};
        const std::span<int32_t> ids{reinterpret_cast<int32_t*>(own + bytes_per_thread(logits.cols) / 2), vocab};
        for (int64_t r = begin; r < end; ++r) {
            std::copy_n(logits.f32(r), vocab, copy.data());
            args.out.i32()[r] = RowSampler(copy, ids, args.step.batch->sampling[static_cast<size_t>(r)]).sample();
        }
    });
}

const Registration<op::Sample> kFast{FastKernel<op::Sample>{.run = sample, .scratch_bytes = scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
