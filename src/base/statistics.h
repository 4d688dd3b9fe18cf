// Statistics of repeated timings: robust against the odd interrupted run, with the uncertainty of the mean.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tandem {

struct Summary {
    double median = 0;
    double mean = 0;       // of the samples that are no outliers
    double deviation = 0;  // standard deviation of the same
    double ci95 = 0;       // half width of the 95 % confidence interval of the mean
    int samples = 0;
    int outliers = 0;  // further than 1.5 interquartile ranges from the quartiles; named, not hidden

    // The same of samples in another unit.
    void scale(double factor) {
        median *= factor;
        mean *= factor;
        deviation *= factor;
        ci95 *= factor;
    }
};

inline Summary summarize(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    const auto quantile = [&](double q) {
        const double at = q * static_cast<double>(samples.size() - 1);
        const auto low = static_cast<size_t>(at);
        const size_t high = std::min(low + 1, samples.size() - 1);
        return samples[low] + (at - static_cast<double>(low)) * (samples[high] - samples[low]);
    };
    const double q1 = quantile(0.25);
    const double q3 = quantile(0.75);
    Summary summary{.median = quantile(0.5)};
    std::vector<double> kept;
    for (double sample : samples) {
        if (sample >= q1 - 1.5 * (q3 - q1) && sample <= q3 + 1.5 * (q3 - q1)) kept.push_back(sample);
    }
    const auto count = static_cast<double>(kept.size());
    summary.samples = static_cast<int>(kept.size());
    summary.outliers = static_cast<int>(samples.size() - kept.size());
    summary.mean = std::accumulate(kept.begin(), kept.end(), 0.0) / count;
    double squares = 0;
    for (double sample : kept) squares += (sample - summary.mean) * (sample - summary.mean);
    summary.deviation = kept.size() > 1 ? std::sqrt(squares / (count - 1)) : 0;
    summary.ci95 = 1.96 * summary.deviation / std::sqrt(count);
    return summary;
}

}  // namespace tandem
