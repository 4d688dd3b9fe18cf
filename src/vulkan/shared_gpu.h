// SharedGpu: one opened GPU for everything in a process: the device with its memory, its compiled kernels, its tuning.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "device/backend.h"
#include "vulkan/backend.h"
#include "vulkan/pipeline.h"
#include "vulkan/queue.h"
#include "vulkan/tuning.h"

namespace tandem::vulkan {

// A device as it was opened; one that is lost stays so until the last that was made with it is gone.
struct OpenedGpu {
    std::shared_ptr<Device> device;
    std::unique_ptr<PipelineCache> pipelines;
};

class SharedGpu {
  public:
    static Result<std::shared_ptr<SharedGpu>> open(const Options& options);

    // What is open now: from any thread. A device that was lost is opened again.
    Result<std::shared_ptr<OpenedGpu>> opened();

    const DeviceInfo& info() const { return info_; }
    // With what the driver says is free now.
    device::Description describe() const;
    bool exact() const { return options_.exact; }
    // What everything compiled from now on is made with; changed by tune() and tests alone.
    Tuning& tuning() { return tuning_; }

  private:
    SharedGpu(Options options, std::shared_ptr<OpenedGpu> opened, bool known_lanes);

    Options options_;
    DeviceInfo info_;
    Tuning tuning_;
    mutable std::mutex mutex_;  // of opened_
    std::shared_ptr<OpenedGpu> opened_;
};

// As `tandem devices` lists it, with what was free when `info` was read.
device::Description description_of(const DeviceInfo& info);

}  // namespace tandem::vulkan
