#include "vulkan/cache.h"

namespace tandem::vulkan {

Result<std::shared_ptr<DeviceCache>> DeviceCache::create(std::shared_ptr<Device> device, device::CacheShape shape) {
    if (shape.dtype != DType::f16 && shape.dtype != DType::f32) {
        return fail("a cache of {} is not supported on Vulkan: take f16 or f32", name(shape.dtype));
    }
    std::shared_ptr<DeviceCache> cache(new DeviceCache(std::move(device), std::move(shape)));
    for (const graph::CacheLayer& layer : cache->shape().layers) {
        const auto tokens = static_cast<uint64_t>(cache->shape().blocks[static_cast<size_t>(layer.group)]) *
                            static_cast<uint64_t>(cache->shape().block_tokens);
        const uint64_t bytes = tokens * row_bytes(cache->shape().dtype, int64_t{layer.kv_heads} * layer.head_dim);
        const Buffer keys = TRY(cache->arena_.allocate(bytes));
        const Buffer values = TRY(cache->arena_.allocate(bytes));
        cache->layers_.push_back({keys, values});
    }
    return cache;
}

Status DeviceCache::clear(Queue& queue) {
    std::vector<Buffer> buffers;
    buffers.reserve(2 * layers_.size());
    for (const Layer& layer : layers_) buffers.insert(buffers.end(), {layer.keys, layer.values});
    return queue.fill(buffers, 0);
}

}  // namespace tandem::vulkan
