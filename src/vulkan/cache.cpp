#include "vulkan/cache.h"

#include <algorithm>

#include "device/host_memory.h"
#include "device/step_check.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

Result<std::shared_ptr<DeviceCache>> DeviceCache::create(Queue& queue, device::CacheShape shape,
                                                         std::shared_ptr<const void> keeper) {
    TRY(shape.check());
    if (shape.dtype == DType::q8_0 && shape.block_tokens % 8 != 0)  // or loads of 16 bytes would not be aligned
        return fail("a cache of q8_0 on Vulkan needs blocks of a multiple of 8 tokens, not {}", shape.block_tokens);
    std::shared_ptr<DeviceCache> cache(new DeviceCache(queue.device(), &queue, std::move(shape), std::move(keeper)));
    for (const graph::CacheLayer& layer : cache->shape().layers) {
        const auto tokens = static_cast<uint64_t>(cache->shape().blocks[static_cast<size_t>(layer.group)]) *
                            static_cast<uint64_t>(cache->shape().block_tokens);
        const uint64_t bytes = tokens * row_bytes(cache->shape().dtype, int64_t{layer.kv_heads} * layer.head_dim);
        cache->layers_.push_back(TRY(cache->shape().shared ? cache->allocate_shared(bytes) : cache->allocate(bytes)));
    }
    return cache;
}

Result<std::shared_ptr<DeviceCache>> DeviceCache::foresee(std::shared_ptr<Device> device, device::CacheShape shape) {
    TRY(shape.check());
    std::shared_ptr<DeviceCache> cache(new DeviceCache(std::move(device), nullptr, std::move(shape), nullptr));
    cache->layers_.resize(cache->shape().layers.size());
    return cache;
}

Result<DeviceCache::Layer> DeviceCache::allocate(uint64_t size_bytes) {
    const Buffer keys = TRY(arena_.allocate(size_bytes));
    const Buffer values = TRY(arena_.allocate(size_bytes));
    return Layer{keys, values};
}

Result<DeviceCache::Layer> DeviceCache::allocate_shared(uint64_t size_bytes) {
    const uint64_t values_begin = device::HostBuffer::whole_pages(size_bytes);
    auto memory = std::make_shared<device::HostBuffer>(TRY(device::HostBuffer::allocate(
        2 * values_begin, "a layer of the key-value cache that the NPU shares", "choose a shorter context")));
    imports_.push_back(TRY(HostImport::create(queue_->device(), memory->pages(), memory)));
    Layer layer{imports_.back()->buffer(), imports_.back()->buffer()};
    layer.values.offset = values_begin;
    layer.values.address += values_begin;
    layer.values.mapped += values_begin;
    layer.keys.size_bytes = layer.values.size_bytes = size_bytes;
    return layer;
}

std::span<std::byte> DeviceCache::host(const Buffer& buffer) {
    if (buffer.mapped == nullptr) return {};
    return {buffer.mapped, static_cast<size_t>(device::HostBuffer::whole_pages(buffer.size_bytes))};
}

device::CacheLayout DeviceCache::host_layout(int layer) const {
    const auto head_dim = static_cast<uint64_t>(layer_shape(layer).head_dim);
    const auto tokens = static_cast<uint64_t>(shape().block_tokens);
    const uint64_t head_bytes = tokens * row_bytes(shape().dtype, layer_shape(layer).head_dim);
    device::CacheLayout layout{.block_bytes = static_cast<uint64_t>(layer_shape(layer).kv_heads) * head_bytes,
                               .head_bytes = head_bytes};
    if (shape().dtype != DType::q8_0) {
        layout.elements = {.token_bytes = head_bytes / tokens, .run_bytes = head_bytes / tokens};
        return layout;
    }
    constexpr uint64_t kRun = 32;
    layout.elements = {.token_bytes = head_dim, .run_bytes = kRun};
    layout.scales = {
        .begin = tokens * head_dim, .token_bytes = head_dim / kRun * sizeof(uint16_t), .run_bytes = sizeof(uint16_t)};
    return layout;
}

Status DeviceCache::settle() {
    return copied_ == 0 ? Status(Ok{}) : queue_->wait(copied_);
}

Status DeviceCache::clear() {
    std::vector<Buffer> buffers;
    buffers.reserve(2 * layers_.size());
    for (const Layer& layer : layers_) buffers.insert(buffers.end(), {layer.keys, layer.values});
    return queue_->fill(buffers, 0);
}

DeviceCache::~DeviceCache() {
    static_cast<void>(settle());
    if (copies_ != VK_NULL_HANDLE) queue_->free(copies_);
}

Status DeviceCache::copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) {
    TRY(device::check_copies(shape(), group, from_to));
    if (from_to.empty()) return Ok{};
    TRY(settle());  // the commands are recorded anew
    if (copies_ == VK_NULL_HANDLE) copies_ = TRY(queue_->allocate());
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
    copied_ = TRY(queue_->submit(copies_));
    return Ok{};
}

}  // namespace tandem::vulkan
