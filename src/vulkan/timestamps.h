// Timestamps: when the GPU reached points of a command buffer.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

class Timestamps {
  public:
    // Fails on devices whose queue has none.
    static Result<std::unique_ptr<Timestamps>> create(std::shared_ptr<Device> device, uint32_t count);

    Timestamps(const Timestamps&) = delete;
    Timestamps& operator=(const Timestamps&) = delete;
    ~Timestamps();

    // Before a recording writes them.
    void reset(VkCommandBuffer commands, uint32_t first, uint32_t count) const;
    // The time at which everything recorded before has ended.
    void write(VkCommandBuffer commands, uint32_t index) const;

    // After the command buffer has run: nanoseconds since an arbitrary moment, for the first `count`.
    Result<std::vector<double>> read(uint32_t count) const;

  private:
    explicit Timestamps(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    std::shared_ptr<Device> device_;
    VkQueryPool pool_ = VK_NULL_HANDLE;
    uint32_t count_ = 0;
};

}  // namespace tandem::vulkan
