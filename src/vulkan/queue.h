// Queue: submits recorded command buffers in order and waits for them by a timeline semaphore. Each has an order of its
// own; one thread uses it at a time, while other Queues of the same device are used by other threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

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

    // Sleeps until shortly before the submission is expected to be done, by how long the same commands took before,
    // looks again and again for a moment, and sleeps on: a short step is noticed at once, a long one takes no processor
    // time. A GPU that never gets done counts as lost, like one that the driver calls so: nothing can be submitted to
    // it any more. Software is waited for as long as it takes.
    Status wait(uint64_t value);

    // Records with `record`, runs that once and waits.
    Status run(const std::function<Status(VkCommandBuffer)>& record);
    // Writes `word` all over the buffers and waits.
    Status fill(std::span<const Buffer> buffers, uint32_t word);

    const std::shared_ptr<Device>& device() const { return device_; }

  private:
    using Clock = std::chrono::steady_clock;

    explicit Queue(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    VkResult block(uint64_t value, std::chrono::nanoseconds timeout) const;
    VkResult poll(uint64_t value, Clock::time_point until, std::chrono::microseconds nap) const;

    std::shared_ptr<Device> device_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    VkSemaphore timeline_ = VK_NULL_HANDLE;
    uint64_t submitted_ = 0;
    Clock::time_point submitted_at_{};
    std::pair<VkCommandBuffer, int> last_{};  // submitted, and how many times
    std::map<std::pair<VkCommandBuffer, int>, std::chrono::nanoseconds> took_;
};

}  // namespace tandem::vulkan
