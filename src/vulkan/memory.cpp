#include "vulkan/memory.h"

#include <algorithm>

namespace tandem::vulkan {

namespace {

struct Wish {
    VkMemoryPropertyFlags required;
    VkMemoryPropertyFlags preferred;
    VkMemoryPropertyFlags avoided;
};

Wish wish_for(MemoryKind kind) {
    constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    constexpr VkMemoryPropertyFlags kMapped =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    switch (kind) {
        case MemoryKind::device:
            return {kLocal, 0, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT};
        case MemoryKind::unified:
            return {kLocal | kMapped, 0, VK_MEMORY_PROPERTY_HOST_CACHED_BIT};
        case MemoryKind::gtt:
            return {kMapped, 0, kLocal};
        case MemoryKind::shared:
            return {kMapped, kLocal, VK_MEMORY_PROPERTY_HOST_CACHED_BIT};
        case MemoryKind::upload:
            return {kMapped, 0, kLocal};
        case MemoryKind::readback:
            return {kMapped, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0};
    }
    return {};
}

}  // namespace

std::optional<uint32_t> memory_type(const Device& device, uint32_t allowed, MemoryKind kind) {
    const Wish wish = wish_for(kind);
    std::optional<uint32_t> best;
    int best_score = -1;
    for (uint32_t i = 0; i < device.memory().memoryTypeCount; ++i) {
        const VkMemoryPropertyFlags flags = device.memory().memoryTypes[i].propertyFlags;
        if ((allowed & (1U << i)) == 0 || (flags & wish.required) != wish.required) continue;
        const int score = ((flags & wish.preferred) == wish.preferred ? 2 : 0) + ((flags & wish.avoided) == 0 ? 1 : 0);
        if (score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

Arena::Arena(std::shared_ptr<Device> device, MemoryKind kind, uint64_t block_bytes)
    : device_(std::move(device)),
      kind_(kind),
      block_bytes_(std::min(block_bytes, device_->capabilities().max_allocation_bytes)) {}

Arena::~Arena() {
    for (const Block& block : blocks_) free(block);
}

void Arena::free(const Block& block) {
    vkDestroyBuffer(device_->handle(), block.buffer, nullptr);
    vkFreeMemory(device_->handle(), block.memory, nullptr);
    device_->count_freed(block.heap, block.heap_bytes);
}

Status Arena::add_block(uint64_t size_bytes) {
    Block block{.size_bytes = size_bytes};
    Status made = make(block);
    if (!made) {
        free(block);
        return made;
    }
    reserved_bytes_ += block.heap_bytes;
    blocks_.push_back(block);
    return Ok{};
}

Status Arena::make(Block& block) {
    const VkBufferCreateInfo create{
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = block.size_bytes,
        .usage = kBufferUsage,
        .sharingMode = VK_SHARING_MODE_EXCLUSIVE,
    };
    VK_TRY("creating a buffer", vkCreateBuffer(device_->handle(), &create, nullptr, &block.buffer));
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device_->handle(), block.buffer, &needs);
    const std::optional<uint32_t> type = memory_type(*device_, needs.memoryTypeBits, kind_);
    if (!type) return fail("Vulkan: {} has no memory of the kind that was asked for", device_->info().name);

    const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                          .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .pNext = &flags,
                                        .allocationSize = needs.size,
                                        .memoryTypeIndex = *type};
    VK_TRY(fmt::format("allocating {} MiB on {}", needs.size >> 20, device_->info().name),
           vkAllocateMemory(device_->handle(), &allocate, nullptr, &block.memory));
    block.heap = device_->memory().memoryTypes[*type].heapIndex;
    block.heap_bytes = needs.size;
    device_->count_allocated(block.heap, block.heap_bytes);
    VK_TRY("binding memory", vkBindBufferMemory(device_->handle(), block.buffer, block.memory, 0));
    if (kind_ != MemoryKind::device) {
        void* mapped = nullptr;
        VK_TRY("mapping memory", vkMapMemory(device_->handle(), block.memory, 0, VK_WHOLE_SIZE, 0, &mapped));
        block.mapped = static_cast<std::byte*>(mapped);
    }
    const VkBufferDeviceAddressInfo address{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = block.buffer};
    block.address = vkGetBufferDeviceAddress(device_->handle(), &address);
    return Ok{};
}

Result<Buffer> Arena::allocate(uint64_t size_bytes) {
    const uint64_t size = Arena::align(std::max<uint64_t>(size_bytes, 1));
    if (size > device_->capabilities().max_allocation_bytes) {
        return fail("Vulkan: a buffer of {} MiB is more than the {} MiB that {} allocates at once", size >> 20,
                    device_->capabilities().max_allocation_bytes >> 20, device_->info().name);
    }
    const auto fits = [&](const Block& block) { return block.size_bytes - block.used_bytes >= size; };
    auto block = std::find_if(blocks_.begin(), blocks_.end(), fits);
    if (block == blocks_.end()) {
        Status added = add_block(std::max(size, block_bytes_));
        if (!added && size < block_bytes_) added = add_block(size);  // what is left may be less than a usual block
        if (!added) return added.error();
        block = std::prev(blocks_.end());
    }
    const uint64_t offset = block->used_bytes;
    block->used_bytes += size;
    return Buffer{
        .handle = block->buffer,
        .offset = offset,
        .size_bytes = size_bytes,
        .address = block->address + offset,
        .mapped = block->mapped == nullptr ? nullptr : block->mapped + offset,
    };
}

MemoryKind weight_memory(const Device& device) {
    const VkPhysicalDeviceType type = device.info().type;
    const bool shares = type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || type == VK_PHYSICAL_DEVICE_TYPE_CPU;
    return shares && memory_type(device, ~0U, MemoryKind::unified) ? MemoryKind::unified : MemoryKind::device;
}

std::vector<HeapBudget> heap_budgets(const Device& device) {
    const auto less = [](uint64_t from, uint64_t taken) { return from - std::min(from, taken); };
    std::vector<HeapBudget> heaps = read_heaps(device.physical(), device.capabilities().memory_budget);
    for (uint32_t i = 0; i < heaps.size(); ++i) {
        HeapBudget& heap = heaps[i];
        const uint64_t taken = device.allocated_bytes(i);
        if (!device.capabilities().memory_budget) heap.free_bytes = less(heap.size_bytes, taken);
        const uint64_t limit =
            heap.device_local ? device.options().device_limit_bytes : device.options().host_limit_bytes;
        if (limit > 0) heap.free_bytes = std::min(heap.free_bytes, less(limit, taken));
    }
    return heaps;
}

}  // namespace tandem::vulkan
