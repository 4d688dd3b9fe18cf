// A Program recorded for the GPU: command buffers for each bucket of rows, made at their first use and replayed.
#pragma once

#include <memory>

#include "device/backend.h"
#include "vulkan/cache.h"
#include "vulkan/pipeline.h"
#include "vulkan/queue.h"
#include "vulkan/tuning.h"
#include "vulkan/weights.h"
#include "vulkan/work_memory.h"

namespace tandem::vulkan {

struct CompileContext {
    const graph::Program& program;
    const graph::Weights& weights;
    std::shared_ptr<DeviceCache> cache;
    const device::CompileOptions& options;
    std::shared_ptr<WeightStore> store;
    const Tuning& tuning;
    bool exact;  // no fused kernels
    WorkMemory& work;
    PipelineCache& pipelines;
    Queue& queue;
};

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context);

}  // namespace tandem::vulkan
