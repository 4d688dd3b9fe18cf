#include "vulkan/api.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

namespace tandem::vulkan {

#define TANDEM_VULKAN_FUNCTION(name) PFN_##name name = nullptr;
#include "vulkan/functions.inc"
#undef TANDEM_VULKAN_FUNCTION

namespace {

constexpr const char* kLoader = "libvulkan.so.1";

// What is missing; empty: nothing.
std::string open_loader() {
    void* const library = dlopen(kLoader, RTLD_NOW | RTLD_LOCAL);  // for as long as the process lives
    if (library == nullptr)
        return fmt::format("{} cannot be opened (Debian: install libvulkan1): {}", kLoader, dlerror());
    std::string missing;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        if (function == nullptr)
            missing = fmt::format("{} has no {}: it is too old, Vulkan 1.3 is needed", kLoader, name);
    };
#define TANDEM_VULKAN_FUNCTION(name) find(name, #name);
#include "vulkan/functions.inc"
#undef TANDEM_VULKAN_FUNCTION
    return missing;
}

}  // namespace

Status load_functions() {
    static const std::string missing = open_loader();
    if (!missing.empty()) return Error{missing};
    return Ok{};
}

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
