// DeviceCache: the keys and values of every layer in device memory, [layer][block][kv_head][token][head_dim].
#pragma once

#include <memory>
#include <vector>

#include "device/backend.h"
#include "vulkan/memory.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {

class DeviceCache final : public device::KvCache {
  public:
    static Result<std::shared_ptr<DeviceCache>> create(std::shared_ptr<Device> device, device::CacheShape shape);

    // Zeros: what is read before it was written must at least be finite.
    Status clear(Queue& queue);

    struct Layer {
        Buffer keys;
        Buffer values;
    };
    const Layer& layer(int index) const { return layers_[static_cast<size_t>(index)]; }
    const graph::CacheLayer& layer_shape(int index) const { return shape().layers[static_cast<size_t>(index)]; }

  private:
    DeviceCache(std::shared_ptr<Device> device, device::CacheShape shape)
        : device::KvCache(std::move(shape)), arena_(std::move(device), MemoryKind::device) {}

    Arena arena_;
    std::vector<Layer> layers_;
};

}  // namespace tandem::vulkan
