// The Vulkan API and the one way its errors become Results.
#pragma once

#include <vulkan/vulkan.h>

#include <string_view>

#include "base/result.h"

namespace tandem::vulkan {

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
