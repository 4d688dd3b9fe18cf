// Statistics: what the driver's compiler made of a kernel, on a device that was opened with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

struct PipelineStatistics {
    uint32_t subgroup = 0;                  // lanes
    std::map<std::string, double> numbers;  // under the driver's own names: "VGPRs", "Scratch size"
    // With DeviceOptions::kernel_text only:
    std::string instructions;  // as the compiler has them before it deals out registers, in its own notation
    std::string assembly;      // the code that the device runs
};

Result<PipelineStatistics> read_statistics(const Device& device, VkPipeline pipeline);

}  // namespace tandem::vulkan
