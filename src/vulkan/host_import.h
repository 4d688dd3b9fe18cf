// HostImport: memory of the host that kernels read and write in place, shared with whoever else has its address.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "vulkan/memory.h"

namespace tandem::vulkan {

class HostImport {
  public:
    // `memory` begins and ends at a multiple of Capabilities::host_import_alignment, which is that of a page. `keeper`,
    // which may own it, is kept as long as this; without one the memory must stay by itself.
    static Result<std::unique_ptr<HostImport>> create(std::shared_ptr<Device> device, std::span<std::byte> memory,
                                                      std::shared_ptr<const void> keeper = nullptr);
    HostImport(const HostImport&) = delete;
    HostImport& operator=(const HostImport&) = delete;
    ~HostImport();

    // Its `mapped` is the begin of the memory itself. What the host wrote before a submission is seen by it, and what
    // it wrote is seen once it is waited for.
    const Buffer& buffer() const { return buffer_; }

  private:
    HostImport(std::shared_ptr<Device> device, std::shared_ptr<const void> keeper)
        : keeper_(std::move(keeper)), device_(std::move(device)) {}
    Status import_memory(std::span<std::byte> memory);

    std::shared_ptr<const void> keeper_;
    std::shared_ptr<Device> device_;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    uint32_t heap_ = 0;
    uint64_t heap_bytes_ = 0;  // taken from it
    Buffer buffer_;
};

}  // namespace tandem::vulkan
