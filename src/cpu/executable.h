// A Program resolved to a list of CPU kernels with their operands.
#pragma once

#include <memory>

#include "base/threads.h"
#include "cpu/backend.h"
#include "cpu/kv_cache.h"
#include "device/backend.h"

namespace tandem::cpu {

struct CompileContext {
    const graph::Program& program;
    const graph::Weights& weights;
    std::shared_ptr<PagedCache> cache;
    const device::CompileOptions& options;
    std::shared_ptr<ThreadPool> threads;
    bool reference_only = false;
    LinearObserver observer = {};
};

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context);

}  // namespace tandem::cpu
