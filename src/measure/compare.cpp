#include "measure/compare.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/statistics.h"

namespace tandem::measure {

namespace {

constexpr int kResamples = 4000;

double median_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return quantile(samples, 0.5);
}

// As many samples again, drawn as runs of neighbours: what disturbs one repetition disturbs the next too.
class BlockSampler {
  public:
    explicit BlockSampler(std::span<const double> samples)
        : samples_(samples), block_(std::max<size_t>(1, static_cast<size_t>(std::cbrt(samples.size())))) {}

    double median(std::mt19937_64& random) {
        drawn_.clear();
        std::uniform_int_distribution<size_t> begins(0, samples_.size() - 1);
        while (drawn_.size() < samples_.size()) {
            const size_t begin = begins(random);
            for (size_t i = 0; i < block_ && drawn_.size() < samples_.size(); ++i)
                drawn_.push_back(samples_[(begin + i) % samples_.size()]);
        }
        return median_of(drawn_);
    }

  private:
    std::span<const double> samples_;
    size_t block_;
    std::vector<double> drawn_;
};

Verdict verdict_of(double low, double high) {
    if (low > 1 - kSame && high < 1 + kSame) return Verdict::same;
    if (low > 1) return Verdict::faster;
    return high < 1 ? Verdict::slower : Verdict::undecided;
}

void note_difference(RunComparison& comparison, const char* what, const std::string& first, const std::string& second) {
    if (first != second) comparison.differences.push_back(fmt::format("{}: {} and {}", what, first, second));
}

const SavedRow* find_row(const SavedRun& run, const SavedRow& like) {
    const auto found = std::ranges::find_if(run.rows, [&](const SavedRow& row) { return row.matches(like); });
    return found == run.rows.end() ? nullptr : &*found;
}

}  // namespace

std::string_view name(Verdict verdict) {
    switch (verdict) {
        case Verdict::faster:
            return "faster";
        case Verdict::slower:
            return "slower";
        case Verdict::same:
            return "the same";
        case Verdict::undecided:
            return "not told apart";
        case Verdict::too_few:
            return "too few repetitions";
    }
    return "";
}

SpeedRatio compare_samples(std::span<const double> first_s, std::span<const double> second_s, double error) {
    SpeedRatio speed;
    if (first_s.empty() || second_s.empty()) return speed;
    speed.ratio = median_of({first_s.begin(), first_s.end()}) / median_of({second_s.begin(), second_s.end()});
    speed.low = speed.high = speed.ratio;
    if (std::min(first_s.size(), second_s.size()) < kLeastSamples) return speed;
    std::mt19937_64 random(1);
    BlockSampler first(first_s);
    BlockSampler second(second_s);
    std::vector<double> ratios;
    for (int i = 0; i < kResamples; ++i) ratios.push_back(first.median(random) / second.median(random));
    std::sort(ratios.begin(), ratios.end());
    speed.low = quantile(ratios, error / 2);
    speed.high = quantile(ratios, 1 - error / 2);
    speed.verdict = verdict_of(speed.low, speed.high);
    return speed;
}

RunComparison compare_runs(const SavedRun& first, const SavedRun& second) {
    constexpr double kError = 0.05;
    RunComparison comparison;
    note_difference(comparison, "models", first.model, second.model);
    note_difference(comparison, "devices", first.device, second.device);
    note_difference(comparison, "hardware", first.hardware, second.hardware);
    note_difference(comparison, "details", first.details, second.details);
    note_difference(comparison, "programs", first.program, second.program);
    for (const SavedRow& row : first.rows) {
        if (const SavedRow* const other = find_row(second, row)) {
            comparison.rows.push_back({row, *other, {}});
        } else {
            comparison.only_first.push_back(row.name());
        }
    }
    for (const SavedRow& row : second.rows) {
        if (find_row(first, row) == nullptr) comparison.only_second.push_back(row.name());
    }
    for (RowComparison& row : comparison.rows) {
        row.speed = compare_samples(row.first.samples_s, row.second.samples_s,
                                    kError / static_cast<double>(comparison.rows.size()));
    }
    return comparison;
}

}  // namespace tandem::measure
