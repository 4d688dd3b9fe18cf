#include "vulkan/host_import.h"

namespace tandem::vulkan {

namespace {

constexpr auto kHandleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;

bool can_import(const Device& device) {
    const VkPhysicalDeviceExternalBufferInfo info{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO,
                                                  .usage = kBufferUsage,
                                                  .handleType = kHandleType};
    VkExternalBufferProperties properties{.sType = VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
    vkGetPhysicalDeviceExternalBufferProperties(device.physical(), &info, &properties);
    constexpr auto kImportable = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
    return (properties.externalMemoryProperties.externalMemoryFeatures & kImportable) != 0;
}

Status check(const Device& device, std::span<const std::byte> memory) {
    const uint64_t alignment = device.capabilities().host_import_alignment;
    if (alignment == 0 || !can_import(device)) {
        return fail(
            "Vulkan: {} cannot share host memory with other devices: its driver lacks {}; use a newer driver, or a "
            "placement without the NPU",
            device.info().name, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    }
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    if (memory.empty() || address % alignment != 0 || memory.size() % alignment != 0) {
        return fail("Vulkan: {} shares host memory in pages of {} bytes, not {} bytes at {}", device.info().name,
                    alignment, memory.size(), static_cast<const void*>(memory.data()));
    }
    return Ok{};
}

}  // namespace

Result<std::unique_ptr<HostImport>> HostImport::create(std::shared_ptr<Device> device, std::span<std::byte> memory,
                                                       std::shared_ptr<const void> keeper) {
    TRY(check(*device, memory));
    std::unique_ptr<HostImport> import(new HostImport(std::move(device), std::move(keeper)));
    TRY(import->import_memory(memory));
    return import;
}

Status HostImport::import_memory(std::span<std::byte> memory) {
    const VkExternalMemoryBufferCreateInfo external{.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
                                                    .handleTypes = kHandleType};
    const VkBufferCreateInfo create{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                    .pNext = &external,
                                    .size = memory.size(),
                                    .usage = kBufferUsage,
                                    .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
    VK_TRY("creating a buffer", vkCreateBuffer(device_->handle(), &create, nullptr, &buffer_.handle));
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device_->handle(), buffer_.handle, &needs);
    if (needs.size > memory.size()) {
        return fail("Vulkan: {} needs {} bytes for a buffer in {} bytes of host memory", device_->info().name,
                    needs.size, memory.size());
    }
    const auto properties_of = reinterpret_cast<PFN_vkGetMemoryHostPointerPropertiesEXT>(
        vkGetDeviceProcAddr(device_->handle(), "vkGetMemoryHostPointerPropertiesEXT"));
    VkMemoryHostPointerPropertiesEXT properties{.sType = VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
    VK_TRY("asking about host memory", properties_of(device_->handle(), kHandleType, memory.data(), &properties));
    const std::optional<uint32_t> type =
        memory_type(*device_, needs.memoryTypeBits & properties.memoryTypeBits, MemoryKind::readback);
    if (!type) return fail("Vulkan: {} has no type of memory for memory of the host", device_->info().name);

    const VkImportMemoryHostPointerInfoEXT pointer{.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT,
                                                   .handleType = kHandleType,
                                                   .pHostPointer = memory.data()};
    const VkMemoryAllocateFlagsInfo flags{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
                                          .pNext = &pointer,
                                          .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                        .pNext = &flags,
                                        .allocationSize = memory.size(),
                                        .memoryTypeIndex = *type};
    VK_TRY(fmt::format("importing {} KiB of host memory into {}", memory.size() >> 10, device_->info().name),
           vkAllocateMemory(device_->handle(), &allocate, nullptr, &memory_));
    heap_ = device_->memory().memoryTypes[*type].heapIndex;
    heap_bytes_ = memory.size();
    device_->count_allocated(heap_, heap_bytes_);
    VK_TRY("binding memory", vkBindBufferMemory(device_->handle(), buffer_.handle, memory_, 0));

    const VkBufferDeviceAddressInfo address{.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                            .buffer = buffer_.handle};
    buffer_.address = vkGetBufferDeviceAddress(device_->handle(), &address);
    buffer_.size_bytes = memory.size();
    buffer_.mapped = memory.data();
    return Ok{};
}

HostImport::~HostImport() {
    vkDestroyBuffer(device_->handle(), buffer_.handle, nullptr);
    vkFreeMemory(device_->handle(), memory_, nullptr);
    device_->count_freed(heap_, heap_bytes_);
}

}  // namespace tandem::vulkan
