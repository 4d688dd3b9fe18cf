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
    int samples = 0;       // that were kept
    int outliers = 0;      // that were set aside; named, not hidden

    // The same of samples in another unit.
    void scale(double factor) {
        median *= factor;
        mean *= factor;
        deviation *= factor;
        ci95 *= factor;
    }
};

// Of samples in ascending order; between two of them, the share of each.
inline double quantile(const std::vector<double>& sorted, double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const auto low = static_cast<size_t>(at);
    const size_t high = std::min(low + 1, sorted.size() - 1);
    return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

// An outlier is further from the median than 3.5 deviations, as the median distance from it tells them: up to half of
// the samples may be disturbed and move neither. Nothing within 1 % is one, however alike the others are.
inline Summary summarize(std::vector<double> samples) {
    constexpr double kDeviations = 3.5;
    constexpr double kDeviationOfMedianDistance = 1.4826;  // of a normal distribution
    constexpr double kAlike = 0.01;
    std::sort(samples.begin(), samples.end());
    Summary summary{.median = quantile(samples, 0.5)};
    std::vector<double> distances;
    for (const double sample : samples) distances.push_back(std::abs(sample - summary.median));
    std::sort(distances.begin(), distances.end());
    const double limit = std::max(kDeviations * kDeviationOfMedianDistance * quantile(distances, 0.5),
                                  kAlike * std::abs(summary.median));
    std::vector<double> kept;
    for (const double sample : samples) {
        if (std::abs(sample - summary.median) <= limit) kept.push_back(sample);
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
