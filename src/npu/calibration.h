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

// More points than the model has constants for them (kStoreGap): what is left over is shown.
std::vector<CalibrationRow> calibration();

// What the model says of the parts of a block of Gemma 3 27B for 1024 tokens on npu1, as a table of Markdown.
Result<std::string> block_table();

// As a table of Markdown.
std::string calibration_table(const std::vector<CalibrationRow>& rows);

}  // namespace tandem::npu
