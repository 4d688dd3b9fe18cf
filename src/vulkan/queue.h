// Queue: submits recorded command buffers in order and waits for them by a timeline semaphore.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "vulkan/device.h"
#include "vulkan/memory.h"

namespace tandem::vulkan {

class Queue {
  public:
    static Result<std::unique_ptr<Queue>> create(std::shared_ptr<Device> device);

    Queue(const Queue&) = delete;
    Queue& operator=(const Queue&) = delete;
    ~Queue();

    // A command buffer that may be submitted again and again.
    Result<VkCommandBuffer> allocate();
    void free(VkCommandBuffer commands);

    static Status begin(VkCommandBuffer commands);
    static Status end(VkCommandBuffer commands);

    // Runs the commands so many times, one after another; the value is what wait() takes for the last.
    Result<uint64_t> submit(VkCommandBuffer commands, int times = 1);
    Status wait(uint64_t value);

    // Writes zeros and waits.
    Status fill_zero(const Buffer& buffer);

    const std::shared_ptr<Device>& device() const { return device_; }

  private:
    explicit Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    std::shared_ptr<Device> device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    uint64_t submitted_ = 0;
};

}  // namespace tandem::vulkan
