#include "vulkan/api.h"

namespace tandem::vulkan {

std::string_view result_name(VkResult result) {
    switch (result) {
        case VK_SUCCESS:
            return "VK_SUCCESS";
        case VK_NOT_READY:
            return "VK_NOT_READY";
        case VK_TIMEOUT:
            return "VK_TIMEOUT";
        case VK_INCOMPLETE:
            return "VK_INCOMPLETE";
        case VK_ERROR_OUT_OF_HOST_MEMORY:
            return "VK_ERROR_OUT_OF_HOST_MEMORY";
        case VK_ERROR_OUT_OF_DEVICE_MEMORY:
            return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
        case VK_ERROR_INITIALIZATION_FAILED:
            return "VK_ERROR_INITIALIZATION_FAILED";
        case VK_ERROR_DEVICE_LOST:
            return "VK_ERROR_DEVICE_LOST";
        case VK_ERROR_MEMORY_MAP_FAILED:
            return "VK_ERROR_MEMORY_MAP_FAILED";
        case VK_ERROR_LAYER_NOT_PRESENT:
            return "VK_ERROR_LAYER_NOT_PRESENT";
        case VK_ERROR_EXTENSION_NOT_PRESENT:
            return "VK_ERROR_EXTENSION_NOT_PRESENT";
        case VK_ERROR_FEATURE_NOT_PRESENT:
            return "VK_ERROR_FEATURE_NOT_PRESENT";
        case VK_ERROR_INCOMPATIBLE_DRIVER:
            return "VK_ERROR_INCOMPATIBLE_DRIVER";
        case VK_ERROR_TOO_MANY_OBJECTS:
            return "VK_ERROR_TOO_MANY_OBJECTS";
        case VK_ERROR_INVALID_EXTERNAL_HANDLE:
            return "VK_ERROR_INVALID_EXTERNAL_HANDLE";
        default:
            return "an unnamed VkResult";
    }
}

Error vulkan_error(std::string_view what, VkResult result) {
    const std::string_view remedy = result == VK_ERROR_OUT_OF_DEVICE_MEMORY
                                        ? ": close other programs that use the GPU, or take a smaller model or context"
                                    : result == VK_ERROR_INCOMPATIBLE_DRIVER
                                        ? ": no Vulkan driver is installed (Debian: mesa-vulkan-drivers)"
                                    : result == VK_ERROR_DEVICE_LOST ? ": the GPU was reset or hung"
                                                                     : "";
    return fail("Vulkan: {} failed with {} ({}){}", what, result_name(result), static_cast<int>(result), remedy);
}

}  // namespace tandem::vulkan
