// Arena: device memory in large blocks, handed out piece by piece with device addresses and freed all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

enum class MemoryKind : uint8_t {
    device,    // the GPU's own; not mapped
    unified,   // the GPU's own that the host writes in place, where the machine has one memory for both
    gtt,       // host memory that the GPU reads: weights that do not fit into its own
    shared,    // written by the host, read by kernels: the GPU's own where the host can reach it
    upload,    // written by the host, copied from
    readback,  // written by the GPU, read by the host from its cache
};

// A piece of a block. `handle` and `offset` are for copies; kernels use the address.
struct Buffer {
    VkBuffer handle = VK_NULL_HANDLE;
    uint64_t offset = 0;
    uint64_t size_bytes = 0;
    VkDeviceAddress address = 0;
    std::byte* mapped = nullptr;  // null for MemoryKind::device
};

// What every buffer may be used for.
constexpr VkBufferUsageFlags kBufferUsage =
    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
    VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;

// The best of the allowed memory types (bits of their numbers), if any will do.
std::optional<uint32_t> memory_type(const Device& device, uint32_t allowed, MemoryKind kind);

class Arena {
  public:
    static constexpr uint64_t kAlignment = 256;
    static constexpr uint64_t align(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
    static constexpr uint64_t kBlockBytes = uint64_t{256} << 20;

    Arena(std::shared_ptr<Device> device, MemoryKind kind, uint64_t block_bytes = kBlockBytes);
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    ~Arena();

    Result<Buffer> allocate(uint64_t size_bytes);

    uint64_t reserved_bytes() const { return reserved_bytes_; }  // taken from the device

  private:
    struct Block {
        VkBuffer buffer = VK_NULL_HANDLE;
        VkDeviceMemory memory = VK_NULL_HANDLE;
        VkDeviceAddress address = 0;
        std::byte* mapped = nullptr;
        uint64_t size_bytes = 0;
        uint64_t used_bytes = 0;
        uint32_t heap = 0;
        uint64_t heap_bytes = 0;  // taken from it
    };

    Status add_block(uint64_t size_bytes);
    Status make(Block& block);
    void free(const Block& block);

    std::shared_ptr<Device> device_;
    MemoryKind kind_;
    uint64_t block_bytes_;
    uint64_t reserved_bytes_ = 0;
    std::vector<Block> blocks_;
};

// Where weights lie: in `unified` memory on a GPU that shares the machine's, so that they are written once and not
// copied.
MemoryKind weight_memory(const Device& device);

// What is free now, within the limits of DeviceOptions; where the driver gives no account of its heaps, what this
// process has not taken.
std::vector<HeapBudget> heap_budgets(const Device& device);

}  // namespace tandem::vulkan
