// DeviceCache: the keys and values of every layer in device memory, [layer][block][kv_head][token][head_dim]. In a
// cache of q8_0 the elements of a block's kv head are followed by their scales, f16 [token][head_dim / 32]. A shared
// cache lies in host memory that is imported, and the keys and the values of a layer begin with a page each.
#pragma once

#include <memory>
#include <vector>

#include "device/backend.h"
#include "vulkan/host_import.h"
#include "vulkan/memory.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {

class DeviceCache final : public device::KvCache {
  public:
    // `keeper` is kept as long as this: it may own `queue`.
    static Result<std::shared_ptr<DeviceCache>> create(Queue& queue, device::CacheShape shape,
                                                       std::shared_ptr<const void> keeper = nullptr);
    // One without memory: for recordings that record nothing.
    static Result<std::shared_ptr<DeviceCache>> foresee(std::shared_ptr<Device> device, device::CacheShape shape);
    ~DeviceCache() override;

    // Zeros: what is read before it was written must at least be finite.
    Status clear();

    // Submits the copies and does not wait for them.
    Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) override;

    std::span<std::byte> host_keys(int layer) const override { return host(layers_[static_cast<size_t>(layer)].keys); }
    std::span<std::byte> host_values(int layer) const override {
        return host(layers_[static_cast<size_t>(layer)].values);
    }
    device::CacheLayout host_layout(int layer) const override;
    Status settle() override;

    struct Layer {
        Buffer keys;
        Buffer values;
    };
    const Layer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
    const graph::CacheLayer& layer_shape(int index) const { return shape().layers[static_cast<size_t>(index)]; }

  private:
    DeviceCache(std::shared_ptr<Device> device, Queue* queue, device::CacheShape shape,
                std::shared_ptr<const void> keeper)
        : device::KvCache(std::move(shape)),
          keeper_(std::move(keeper)),
          queue_(queue),
          arena_(std::move(device), MemoryKind::device) {}

    // Memory for the keys and the values of a layer, so many bytes each.
    Result<Layer> allocate(uint64_t size_bytes);
    Result<Layer> allocate_shared(uint64_t size_bytes);

    static std::span<std::byte> host(const Buffer& buffer);

    std::shared_ptr<const void> keeper_;
    Queue* queue_;  // null: foreseen only
    Arena arena_;
    std::vector<std::unique_ptr<HostImport>> imports_;  // of a shared cache, one for each layer
    std::vector<Layer> layers_;
    VkCommandBuffer copies_ = VK_NULL_HANDLE;  // the last that were submitted
    uint64_t copied_ = 0;                      // when they are done
};

}  // namespace tandem::vulkan
