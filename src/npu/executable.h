// A segment of a Program made ready for the NPU: a list of steps over values in host memory.
#pragma once

#include <memory>

#include "npu/step.h"

namespace tandem::npu {

struct CompileContext {
    std::shared_ptr<Workshop> shop;
    std::shared_ptr<device::Backend> host;
    const graph::Program& program;
    const graph::Weights& weights;
    std::shared_ptr<device::KvCache> cache;
    const device::CompileOptions& options;
};

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context);

}  // namespace tandem::npu
