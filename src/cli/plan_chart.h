// The picture of `tandem plan`: tokens per second for each placement and prompt.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/placement.h"

namespace tandem::cli {

struct PlanRow {
    int prompt = 0;
    plan::Policy policy = plan::Policy::main_only;  // that was asked for
    plan::Placement placement = {};                 // that it comes to
    double seconds = 0;
    double main_busy_s = 0;
    double npu_busy_s = 0;
    double memory_bytes = 0;
    double low_s = 0;   // if the NPU is slower than it is taken for
    double high_s = 0;  // if it is faster

    double tokens_per_s() const { return prompt / seconds; }
};

// The beginning of such a file, with a title.
std::string svg_begin(int width, int height, std::string_view title);

// An SVG file: groups of bars, each with its figure.
Status write_plan_chart(const std::string& path, const std::string& title, const std::vector<PlanRow>& rows);

}  // namespace tandem::cli
