// Which elements of a cooperative matrix each lane has: Vulkan leaves it open, so the device is asked.
#pragma once

#include "base/result.h"
#include "vulkan/pipeline.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {

// Whether it is as kernels/lane_matrix.glsl takes it to be. False also where there are no cooperative matrices.
Result<bool> has_known_lane_layout(Queue& queue, PipelineCache& pipelines);

}  // namespace tandem::vulkan
