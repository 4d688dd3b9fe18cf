// A device for tests of single kernels: buffers in, one recording, bytes out; validation must stay silent.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "vulkan/kernel.h"
#include "vulkan/memory.h"
#include "vulkan/pipeline.h"
#include "vulkan/queue.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

class Gpu {
  public:
    Gpu();

    const std::shared_ptr<Device>& device() const { return device_; }
    Queue& queue() { return *queue_; }
    PipelineCache& pipelines() { return *pipelines_; }

    // Host-visible memory that kernels read and write; zero at first.
    Buffer buffer(uint64_t size_bytes);

    template <typename T>
    Buffer upload(const std::vector<T>& values) {
        Buffer made = buffer(values.size() * sizeof(T));
        if (!values.empty()) std::memcpy(made.mapped, values.data(), values.size() * sizeof(T));
        return made;
    }

    template <typename T>
    std::vector<T> read(const Buffer& from) const {
        std::vector<T> values(from.size_bytes / sizeof(T));
        std::memcpy(values.data(), from.mapped, values.size() * sizeof(T));
        return values;
    }

    // Records, runs and waits.
    void run(const std::function<Status(Recorder&)>& record);

  private:
    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    std::unique_ptr<Arena> arena_;
};

// One for the whole program: opening a device takes long.
Gpu& gpu();

}  // namespace tandem::vulkan
