// What `tandem bench` found, as a table for people and as JSON.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "device/backend.h"
#include "device/rates.h"
#include "measure/agreement.h"
#include "measure/benchmark.h"
#include "plan/several.h"

namespace tandem::cli {

struct BenchReport {
    std::string model;
    device::Description device;
    device::Rates rates = {};
    int repetitions = 0;
    double load_s = 0;  // of bringing the weights to the device
    std::vector<measure::BenchmarkRow> rows = {};
    std::vector<plan::StepShares> shares = {};  // of several devices in a step of each row, else empty
    std::vector<measure::AgreementRow> agreement = {};
    measure::Tolerance tolerance = {};
};

std::string to_text(const BenchReport& report);
std::string to_json(const BenchReport& report);
// One row in a line.
std::string describe(const BenchReport& report, const measure::BenchmarkRow& row);
// Whether all that was compared is within the tolerance.
bool agrees(const BenchReport& report);

class Stopwatch {
  public:
    double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  private:
    using Clock = std::chrono::steady_clock;
    Clock::time_point begin_ = Clock::now();
};

}  // namespace tandem::cli
