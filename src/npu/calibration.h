// Calibration: the cost model beside what others measured and published. Nothing was measured on an NPU by this
// project.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::npu {

struct CalibrationRow {
    std::string what;
    std::string source;
    double published = 0;
    double modelled = 0;
    std::string unit;

    double error() const { return modelled / published - 1; }
};

Result<std::vector<CalibrationRow>> calibration();

// As a table of Markdown.
std::string calibration_table(const std::vector<CalibrationRow>& rows);

}  // namespace tandem::npu
