// The sum of what a row's experts made, each times its weight.
#pragma once

#include "vulkan/recorder.h"

namespace tandem::vulkan {

struct ExpertSumCall {
    Access x;        // f32 [rows][used][cols]
    Access routing;  // of op::Route
    Access y;        // f32 [rows][cols]
    uint32_t rows = 0;
    uint32_t cols = 0;
    uint32_t used = 0;
};
Status record_expert_sum(Recorder& rec, const ExpertSumCall& call);

}  // namespace tandem::vulkan
