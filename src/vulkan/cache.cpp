#include "vulkan/cache.h"

#include <algorithm>

#include "device/step_check.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

Result<std::shared_ptr<DeviceCache>> DeviceCache::create(Queue& queue, device::CacheShape shape,
                                                         std::shared_ptr<const void> keeper) {
    TRY(shape.check());
    if (shape.dtype == DType::q8_0 && shape.block_tokens % 8 != 0)  // or loads of 16 bytes would not be aligned
        return fail("a cache of q8_0 on Vulkan needs blocks of a multiple of 8 tokens, not {}", shape.block_tokens);
    std::shared_ptr<DeviceCache> cache(new DeviceCache(queue, std::move(shape), std::move(keeper)));
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

Status DeviceCache::clear() {
    std::vector<Buffer> buffers;
    buffers.reserve(2 * layers_.size());
    for (const Layer& layer : layers_) buffers.insert(buffers.end(), {layer.keys, layer.values});
    return queue_.fill(buffers, 0);
}

DeviceCache::~DeviceCache() {
    if (copied_ != 0) static_cast<void>(queue_.wait(copied_));
    if (copies_ != VK_NULL_HANDLE) queue_.free(copies_);
}

Status DeviceCache::copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) {
    TRY(device::check_copies(shape(), group, from_to));
    if (from_to.empty()) return Ok{};
    if (copied_ != 0) TRY(queue_.wait(copied_));  // the commands are recorded anew
    if (copies_ == VK_NULL_HANDLE) copies_ = TRY(queue_.allocate());
    TRY(Queue::begin(copies_));
    std::vector<VkBufferCopy> regions(from_to.size());
    for (size_t i = 0; i < layers_.size(); ++i) {
        const graph::CacheLayer& layer = shape().layers[i];
        if (layer.group != group) continue;
        const uint64_t bytes = static_cast<uint64_t>(shape().block_tokens) *
                               row_bytes(shape().dtype, int64_t{layer.kv_heads} * layer.head_dim);
        for (const Buffer* buffer : {&layers_[i].keys, &layers_[i].values}) {
            std::transform(from_to.begin(), from_to.end(), regions.begin(), [&](const auto& copy) {
                return VkBufferCopy{.srcOffset = buffer->offset + static_cast<uint64_t>(copy.first) * bytes,
                                    .dstOffset = buffer->offset + static_cast<uint64_t>(copy.second) * bytes,
                                    .size = bytes};
            });
            vkCmdCopyBuffer(copies_, buffer->handle, buffer->handle, static_cast<uint32_t>(regions.size()),
                            regions.data());
        }
    }
    make_visible(copies_);  // steps end like this too, so that copies find what they wrote
    TRY(Queue::end(copies_));
    copied_ = TRY(queue_.submit(copies_));
    return Ok{};
}

}  // namespace tandem::vulkan
