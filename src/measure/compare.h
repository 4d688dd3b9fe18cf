// Compare: whether one run of a benchmark was faster than another, or only happened to be.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/saved_run.h"

namespace tandem::measure {

enum class Verdict : uint8_t {
    faster,
    slower,
    same,       // the whole interval is within kSame of 1
    undecided,  // neither: more repetitions are needed
    too_few,    // repetitions to say anything
};

std::string_view name(Verdict verdict);

inline constexpr double kSame = 0.02;
inline constexpr int kLeastSamples = 8;

// How much faster the second is: the ratio of the medians, with the bounds of its confidence interval.
struct SpeedRatio {
    double ratio = 1;
    double low = 1;
    double high = 1;
    Verdict verdict = Verdict::too_few;
};

// By a bootstrap of blocks of neighbours, since one repetition is like the next: `error` is the chance to be told a
// difference where there is none. The same samples give the same result.
SpeedRatio compare_samples(std::span<const double> first_s, std::span<const double> second_s, double error = 0.05);

struct RowComparison {
    SavedRow first;
    SavedRow second;
    SpeedRatio speed;
};

struct RunComparison {
    std::vector<RowComparison> rows;  // that both have; together they err as seldom as one would
    std::vector<std::string> only_first;
    std::vector<std::string> only_second;
    std::vector<std::string> differences;  // of the runs, but for speed: models, devices
};

RunComparison compare_runs(const SavedRun& first, const SavedRun& second);

}  // namespace tandem::measure
