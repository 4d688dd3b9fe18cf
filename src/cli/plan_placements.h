// The part of `tandem plan` about prompts on a GPU with an NPU beside it: what each placement would bring.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/plan_chart.h"
#include "device/rates.h"
#include "graph/program.h"

namespace tandem::cli {

struct PlacementQuestion {
    std::string model;
    std::vector<int> prompts;
    device::Rates gpu;       // that its kernels reach
    std::string array;       // of the NPU
    double gpu_watts = 14;   // published of a Strix, for decoding 8B: 14 W on its GPU,
    double npu_watts = 1.2;  // and so many on its NPU
};

// A prompt, and a token of the answer to it, by the GPU alone or by the NPU while the GPU sleeps and the CPU does the
// rest.
struct AloneRow {
    int prompt = 0;
    plan::Policy policy = plan::Policy::main_only;
    double prompt_s = 0;
    double token_s = 0;
    double cpu_busy_s = 0;  // of the token
    double prompt_j = 0;    // of the GPU or the NPU, for each token
    double token_j = 0;
};

struct PlacementReport {
    std::string array;  // "npu1 (Phoenix ...)"
    std::vector<PlanRow> rows;
    std::vector<AloneRow> alone;
    std::vector<std::string> left;  // to the GPU, and why
};

Result<PlacementReport> plan_placements(const graph::Program& program, const PlacementQuestion& question);
std::string to_text(const PlacementQuestion& question, const PlacementReport& report);

}  // namespace tandem::cli
