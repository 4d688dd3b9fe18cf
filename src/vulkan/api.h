// The Vulkan API, opened at run time, and the one way its errors become Results.
#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include <string_view>

#include "base/result.h"

namespace tandem::vulkan {

// By the names that they have everywhere; null until load_functions() has found them.
#define TANDEM_VULKAN_FUNCTION(name) extern PFN_##name name;
#include "vulkan/functions.inc"
#undef TANDEM_VULKAN_FUNCTION

// Opens the loader of Vulkan, once: a machine without it runs everything else. From any thread.
Status load_functions();

std::string_view result_name(VkResult result);

// What failed, with the name of Vulkan's code and, where it helps, the remedy.
Error vulkan_error(std::string_view what, VkResult result);

}  // namespace tandem::vulkan

// VK_TRY("creating the device", vkCreateDevice(...)): returns an Error from this function unless it gives VK_SUCCESS.
#define VK_TRY(what, call)                                           \
    do {                                                             \
        const VkResult vk_result_ = (call);                          \
        if (vk_result_ != VK_SUCCESS) [[unlikely]]                   \
            return ::tandem::vulkan::vulkan_error(what, vk_result_); \
    } while (false)
