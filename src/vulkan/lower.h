// Lowering: from a Program to the stages that run it on the GPU, with neighbours fused where a kernel does both.
#pragma once

#include "vulkan/stage.h"

namespace tandem::vulkan {

struct LoweringOptions {
    const DeviceCache* cache = nullptr;  // may be null when the Program has no cache layers
    const Tuning& tuning;
    const Capabilities& capabilities;
    bool exact = false;  // every op by itself and in f32, as the Program says it
};

Result<StagedProgram> lower(const graph::Program& program, const LoweringOptions& options);

}  // namespace tandem::vulkan
