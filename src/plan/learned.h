// Learned: what steps took by the main device alone and by both together, measured, so that `auto` keeps what is
// faster.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace tandem::plan {

// Steps of about as many rows are compared with each other. Of each number of rows the first few steps are run in turn
// by both and by the main device alone; from then on by whichever was faster. So both together are only used where they
// were seen to win, and cost a few steps where they do not.
class Learned {
  public:
    static constexpr size_t kTrials = 3;        // of each
    static constexpr double kLeastGain = 0.03;  // by less two measurements of one thing differ

    struct Times {
        double alone_s = 0;     // the median of its trials
        double together_s = 0;  // 0: not measured
    };

    // How a step of so many rows should be run.
    bool together(int64_t rows) const;
    void add(int64_t rows, bool together, double seconds);

    // By rows, a power of two: those for which both are known. What is set counts as measured.
    std::map<int64_t, Times> times() const;
    void set(int64_t rows, const Times& times);

    // Whether any number of rows is still open or has been won by both together.
    bool given_up() const;

  private:
    struct Trials {
        std::vector<double> alone, together;
    };
    static int64_t bucket(int64_t rows);
    static bool wins(const Trials& trials);

    mutable std::mutex mutex_;
    std::map<int64_t, Trials> trials_;
};

}  // namespace tandem::plan
