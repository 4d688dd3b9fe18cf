#include "plan/learned.h"

#include <algorithm>
#include <bit>

namespace tandem::plan {

namespace {

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
}

}  // namespace

int64_t Learned::bucket(int64_t rows) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(rows, 1))));
}

bool Learned::wins(const Trials& trials) {
    return median_of(trials.together) < (1 - kLeastGain) * median_of(trials.alone);
}

bool Learned::together(int64_t rows) const {
    const std::lock_guard lock(mutex_);
    const auto found = trials_.find(bucket(rows));
    if (found == trials_.end()) return true;
    const Trials& trials = found->second;
    if (trials.together.size() >= kTrials && trials.alone.size() >= kTrials) return wins(trials);
    return trials.together.size() <= trials.alone.size();
}

void Learned::add(int64_t rows, bool together, double seconds) {
    const std::lock_guard lock(mutex_);
    Trials& trials = trials_[bucket(rows)];
    std::vector<double>& times = together ? trials.together : trials.alone;
    if (times.size() < kTrials) times.push_back(seconds / static_cast<double>(std::max<int64_t>(rows, 1)));
}

std::map<int64_t, Learned::Times> Learned::times() const {
    const std::lock_guard lock(mutex_);
    std::map<int64_t, Times> known;
    for (const auto& [rows, trials] : trials_) {
        if (trials.together.size() < kTrials || trials.alone.size() < kTrials) continue;
        const auto count = static_cast<double>(rows);
        known[rows] = {.alone_s = count * median_of(trials.alone), .together_s = count * median_of(trials.together)};
    }
    return known;
}

void Learned::set(int64_t rows, const Times& times) {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<double>(rows);
    trials_[bucket(rows)] = {.alone = std::vector<double>(kTrials, times.alone_s / count),
                             .together = std::vector<double>(kTrials, times.together_s / count)};
}

bool Learned::given_up() const {
    const std::lock_guard lock(mutex_);
    return !trials_.empty() && std::all_of(trials_.begin(), trials_.end(), [](const auto& of_rows) {
        const Trials& trials = of_rows.second;
        return trials.together.size() >= kTrials && trials.alone.size() >= kTrials && !wins(trials);
    });
}

}  // namespace tandem::plan
