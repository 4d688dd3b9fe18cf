// The few declarations of VK_KHR_cooperative_matrix that are needed: Debian 12's Vulkan headers are older than it.
#pragma once

#include <cstdint>

#include "vulkan/api.h"

namespace tandem::vulkan {

constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";

// VkPhysicalDeviceCooperativeMatrixFeaturesKHR
struct CooperativeMatrixFeatures {
    VkStructureType sType = static_cast<VkStructureType>(1000506000);  // NOLINT: Vulkan's own name
    void* pNext = nullptr;                                             // NOLINT
    VkBool32 cooperative_matrix = VK_FALSE;
    VkBool32 robust_buffer_access = VK_FALSE;
};

// VkCooperativeMatrixPropertiesKHR: a product of an m x k and a k x n matrix that the device has. The types are
// VkComponentTypeKHR, the scope is VkScopeKHR.
struct CooperativeMatrixProperties {
    VkStructureType sType = static_cast<VkStructureType>(1000506001);  // NOLINT
    void* pNext = nullptr;                                             // NOLINT
    uint32_t m = 0;
    uint32_t n = 0;
    uint32_t k = 0;
    uint32_t a_type = 0;
    uint32_t b_type = 0;
    uint32_t c_type = 0;
    uint32_t result_type = 0;
    VkBool32 saturating = VK_FALSE;
    uint32_t scope = 0;
};

constexpr uint32_t kComponentF16 = 0;
constexpr uint32_t kComponentF32 = 1;
constexpr uint32_t kScopeSubgroup = 3;

// vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
using GetCooperativeMatrixProperties = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, CooperativeMatrixProperties*);

}  // namespace tandem::vulkan
