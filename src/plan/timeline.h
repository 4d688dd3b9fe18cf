// Timeline: what each device did when, for a trace viewer.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::plan {

class Timeline {
  public:
    using Clock = std::chrono::steady_clock;

    struct Span {
        std::string device;
        std::string what;
        double begin_s = 0;  // since the Timeline was made
        double end_s = 0;
    };

    void add(std::string device, std::string what, Clock::time_point begin, Clock::time_point end);
    std::vector<Span> spans() const;

    // In the trace event format that Perfetto and chrome://tracing read.
    std::string to_json() const;
    // Seconds in which spans of both devices were under way.
    double overlap_seconds(const std::string& device, const std::string& other) const;

  private:
    mutable std::mutex mutex_;
    Clock::time_point start_ = Clock::now();
    std::vector<Span> spans_;
};

}  // namespace tandem::plan
