#include "vulkan/device.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "vulkan/cooperative_matrix.h"

namespace tandem::vulkan {

namespace {

constexpr uint32_t kApiVersion = VK_API_VERSION_1_3;
constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

std::atomic<int> g_validation_messages{0};  // the layer's callback has no other place to count

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT /*severity*/,
                                          VkDebugUtilsMessageTypeFlagsEXT /*types*/,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* /*user*/) {
    ++g_validation_messages;
    log::error("validation: {}", data->pMessage);
    return VK_FALSE;
}

// The extensible feature and property structs of a device, linked together. Not movable: the links are addresses.
struct Features {
    VkPhysicalDeviceVulkan11Features v11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features v12{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan13Features v13{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkPhysicalDeviceFeatures2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};

    Features() {
        all.pNext = &v11;
        v11.pNext = &v12;
        v12.pNext = &v13;
    }
    Features(const Features&) = delete;
    Features& operator=(const Features&) = delete;
};

// The features every kernel may count on, each with the name a user can look up.
struct Required {
    const char* name;
    VkBool32& (*get)(Features&);
};

constexpr Required kRequired[] = {
    {"shaderInt64", [](Features& f) -> VkBool32& { return f.all.features.shaderInt64; }},
    {"shaderInt16", [](Features& f) -> VkBool32& { return f.all.features.shaderInt16; }},
    {"storageBuffer16BitAccess", [](Features& f) -> VkBool32& { return f.v11.storageBuffer16BitAccess; }},
    {"storageBuffer8BitAccess", [](Features& f) -> VkBool32& { return f.v12.storageBuffer8BitAccess; }},
    {"shaderFloat16", [](Features& f) -> VkBool32& { return f.v12.shaderFloat16; }},
    {"shaderInt8", [](Features& f) -> VkBool32& { return f.v12.shaderInt8; }},
    {"bufferDeviceAddress", [](Features& f) -> VkBool32& { return f.v12.bufferDeviceAddress; }},
    {"timelineSemaphore", [](Features& f) -> VkBool32& { return f.v12.timelineSemaphore; }},
    {"scalarBlockLayout", [](Features& f) -> VkBool32& { return f.v12.scalarBlockLayout; }},
    {"hostQueryReset", [](Features& f) -> VkBool32& { return f.v12.hostQueryReset; }},
    {"vulkanMemoryModel", [](Features& f) -> VkBool32& { return f.v12.vulkanMemoryModel; }},
    {"vulkanMemoryModelDeviceScope", [](Features& f) -> VkBool32& { return f.v12.vulkanMemoryModelDeviceScope; }},
    {"synchronization2", [](Features& f) -> VkBool32& { return f.v13.synchronization2; }},
    {"maintenance4", [](Features& f) -> VkBool32& { return f.v13.maintenance4; }},
};

// Used where present.
constexpr Required kOptional[] = {
    {"shaderIntegerDotProduct", [](Features& f) -> VkBool32& { return f.v13.shaderIntegerDotProduct; }},
    {"subgroupSizeControl", [](Features& f) -> VkBool32& { return f.v13.subgroupSizeControl; }},
    {"computeFullSubgroups", [](Features& f) -> VkBool32& { return f.v13.computeFullSubgroups; }},
};

std::vector<std::string> extensions_of(VkPhysicalDevice physical) {
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> properties(count);
    vkEnumerateDeviceExtensionProperties(physical, nullptr, &count, properties.data());
    std::vector<std::string> names;
    names.reserve(properties.size());
    for (const VkExtensionProperties& property : properties) names.emplace_back(property.extensionName);
    return names;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<uint32_t> compute_family(VkPhysicalDevice physical) {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    for (uint32_t i = 0; i < count; ++i) {
        if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) return i;
    }
    return std::nullopt;
}

std::string why_unusable(VkPhysicalDevice physical, const VkPhysicalDeviceProperties& properties) {
    if (properties.apiVersion < kApiVersion) {
        return fmt::format("supports Vulkan {}.{}, 1.3 is needed", VK_API_VERSION_MAJOR(properties.apiVersion),
                           VK_API_VERSION_MINOR(properties.apiVersion));
    }
    if (!compute_family(physical)) return "has no compute queue";
    Features features;
    vkGetPhysicalDeviceFeatures2(physical, &features.all);
    for (const Required& required : kRequired) {
        if (required.get(features) == VK_FALSE) return fmt::format("lacks the feature {}", required.name);
    }
    return "";
}

// The products of f16 matrices into f32 that a subgroup of the device makes.
std::vector<CooperativeMatrixProperties> half_matrices(VkInstance instance, VkPhysicalDevice physical) {
    CooperativeMatrixFeatures features;
    VkPhysicalDeviceFeatures2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &features};
    vkGetPhysicalDeviceFeatures2(physical, &all);
    const auto get = reinterpret_cast<GetCooperativeMatrixProperties>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    if (features.cooperative_matrix == VK_FALSE || get == nullptr) return {};
    uint32_t count = 0;
    if (get(physical, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<CooperativeMatrixProperties> matrices(count);
    if (get(physical, &count, matrices.data()) < VK_SUCCESS) return {};
    matrices.resize(count);
    std::erase_if(matrices, [](const CooperativeMatrixProperties& p) {
        return p.a_type != kComponentF16 || p.b_type != kComponentF16 || p.c_type != kComponentF32 ||
               p.result_type != kComponentF32 || p.scope != kScopeSubgroup;
    });
    return matrices;
}

bool has_shape(const std::vector<CooperativeMatrixProperties>& matrices, uint32_t m, uint32_t n, uint32_t k) {
    return std::any_of(matrices.begin(), matrices.end(),
                       [&](const CooperativeMatrixProperties& p) { return p.m == m && p.n == n && p.k == k; });
}

// 16 x 16 x 16 where there is that. Others only where subgroups have one size: elsewhere a shape is for one of the
// sizes, and which one is not said.
std::optional<MatrixShape> choose_fragment(const std::vector<CooperativeMatrixProperties>& matrices,
                                           bool one_subgroup) {
    if (has_shape(matrices, 16, 16, 16)) return MatrixShape{};
    const auto known = [](uint32_t size) { return size == 8 || size == 16; };
    for (const CooperativeMatrixProperties& p : matrices) {
        if (one_subgroup && known(p.m) && known(p.n) && known(p.k)) return MatrixShape{p.m, p.n, p.k};
    }
    return std::nullopt;
}

// By the extension of either vendor that counts them; 0 where there is none.
uint32_t count_compute_units(VkPhysicalDevice physical, const std::vector<std::string>& extensions) {
    VkPhysicalDeviceShaderCorePropertiesAMD amd{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    if (has(extensions, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) {
        all.pNext = &amd;
    } else if (has(extensions, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        all.pNext = &nvidia;
    }
    vkGetPhysicalDeviceProperties2(physical, &all);
    return amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray +
           nvidia.shaderSMCount;
}

Capabilities read_capabilities(VkInstance instance, VkPhysicalDevice physical) {
    VkPhysicalDeviceVulkan13Properties v13{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceVulkan11Properties v11{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES,
                                           .pNext = &v13};
    VkPhysicalDeviceProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v11};
    VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
    const std::vector<std::string> extensions = extensions_of(physical);
    if (has(extensions, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) v13.pNext = &host;
    vkGetPhysicalDeviceProperties2(physical, &all);
    const VkPhysicalDeviceLimits& limits = all.properties.limits;
    std::vector<CooperativeMatrixProperties> matrices;
    if (has(extensions, kCooperativeMatrixExtension)) matrices = half_matrices(instance, physical);
    const auto fragment = choose_fragment(matrices, v13.minSubgroupSize == v13.maxSubgroupSize);
    return {
        .subgroup = v11.subgroupSize,
        .min_subgroup = v13.minSubgroupSize,
        .max_subgroup = v13.maxSubgroupSize,
        .shared_bytes = limits.maxComputeSharedMemorySize,
        .max_workgroup = limits.maxComputeWorkGroupInvocations,
        .compute_units = count_compute_units(physical, extensions),
        .integer_dot = v13.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE,
        .cooperative_matrix = fragment.has_value(),
        .narrow_matrix = has_shape(matrices, 16, 16, 16) && has_shape(matrices, 16, 8, 16),
        .fragment = fragment.value_or(MatrixShape{}),
        .memory_budget = has(extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME),
        .timestamp_ns =
            limits.timestampComputeAndGraphics == VK_TRUE ? static_cast<double>(limits.timestampPeriod) : 0.0,
        .host_import_alignment = host.minImportedHostPointerAlignment,
        .max_allocation_bytes = v11.maxMemoryAllocationSize,
    };
}

DeviceInfo read_info(VkInstance instance, VkPhysicalDevice physical, int index) {
    VkPhysicalDeviceDriverProperties driver{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &driver};
    vkGetPhysicalDeviceProperties2(physical, &all);
    DeviceInfo info{
        .index = index,
        .name = all.properties.deviceName,
        .driver = fmt::format("{} {}", driver.driverName, driver.driverInfo),
        .api_version = all.properties.apiVersion,
        .vendor = all.properties.vendorID,
        .type = all.properties.deviceType,
        .unusable = why_unusable(physical, all.properties),
    };
    if (info.unusable.empty()) info.capabilities = read_capabilities(instance, physical);
    info.heaps = read_heaps(physical, info.capabilities.memory_budget);
    return info;
}

Result<VkInstance> create_instance(bool validation) {
    TRY(load_functions());
    const VkApplicationInfo application{
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .pApplicationName = "tandem", .apiVersion = kApiVersion};
    const VkValidationFeatureEnableEXT enables[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    const VkValidationFeaturesEXT features{.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                           .enabledValidationFeatureCount = 1,
                                           .pEnabledValidationFeatures = enables};
    const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    const VkInstanceCreateInfo create{
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validation ? &features : nullptr,
        .pApplicationInfo = &application,
        .enabledLayerCount = validation ? 1U : 0U,
        .ppEnabledLayerNames = &kValidationLayer,
        .enabledExtensionCount = validation ? 2U : 0U,
        .ppEnabledExtensionNames = extensions,
    };
    VkInstance instance = VK_NULL_HANDLE;
    VK_TRY("creating the instance", vkCreateInstance(&create, nullptr, &instance));
    return instance;
}

std::vector<VkPhysicalDevice> physical_devices(VkInstance instance) {
    uint32_t count = 0;
    if (vkEnumeratePhysicalDevices(instance, &count, nullptr) != VK_SUCCESS) return {};
    std::vector<VkPhysicalDevice> devices(count);
    if (vkEnumeratePhysicalDevices(instance, &count, devices.data()) < VK_SUCCESS) return {};
    devices.resize(count);
    return devices;
}

// Higher is better.
int rank(const DeviceInfo& info) {
    switch (info.type) {
        case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
            return 4;
        case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
            return 3;
        case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
            return 2;
        case VK_PHYSICAL_DEVICE_TYPE_CPU:
            return 0;
        default:
            return 1;
    }
}

bool contains_ignoring_case(std::string_view text, std::string_view part) {
    const auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

Result<size_t> choose(const std::vector<DeviceInfo>& devices, const std::string& selector) {
    if (devices.empty()) return fail("no Vulkan device was found: install a driver (Debian: mesa-vulkan-drivers)");
    std::optional<size_t> best;
    int number = -1;
    const auto parsed = std::from_chars(selector.data(), selector.data() + selector.size(), number);
    const bool by_number = parsed.ec == std::errc() && parsed.ptr == selector.data() + selector.size();
    for (size_t i = 0; i < devices.size(); ++i) {
        const DeviceInfo& info = devices[i];
        if (by_number ? number != info.index : !contains_ignoring_case(info.name, selector)) continue;
        if (by_number && !info.unusable.empty()) return fail("vulkan:{} ({}) {}", number, info.name, info.unusable);
        if (!info.unusable.empty()) continue;
        if (!best || rank(info) > rank(devices[*best])) best = i;
    }
    if (best) return *best;
    std::string known;
    for (const DeviceInfo& info : devices) {
        known += fmt::format("{}{}: {}{}{}", known.empty() ? "" : "; ", info.index, info.name,
                             info.unusable.empty() ? "" : ", ", info.unusable);
    }
    return fail("no usable Vulkan device matches '{}' (there are: {})", selector, known);
}

}  // namespace

std::vector<HeapBudget> read_heaps(VkPhysicalDevice physical, bool has_budget) {
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(physical, &memory);
    if (memory.memoryHeapCount == 0) return {};  // compiled for, but not there: asked for a budget, RADV would crash
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    if (has_budget) all.pNext = &budget;
    vkGetPhysicalDeviceMemoryProperties2(physical, &all);
    std::vector<HeapBudget> heaps;
    for (uint32_t i = 0; i < all.memoryProperties.memoryHeapCount; ++i) {
        const VkMemoryHeap& heap = all.memoryProperties.memoryHeaps[i];
        const uint64_t budgeted = budget.heapBudget[i] - std::min(budget.heapBudget[i], budget.heapUsage[i]);
        heaps.push_back({.size_bytes = heap.size,
                         .free_bytes = has_budget ? std::min(budgeted, heap.size) : heap.size,
                         .device_local = (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0});
    }
    return heaps;
}

Result<std::vector<DeviceInfo>> Device::list() {
    Result<VkInstance> instance = create_instance(false);
    if (!instance) return std::vector<DeviceInfo>{};
    std::vector<DeviceInfo> infos;
    for (VkPhysicalDevice physical : physical_devices(*instance)) {
        infos.push_back(read_info(*instance, physical, static_cast<int>(infos.size())));
    }
    vkDestroyInstance(*instance, nullptr);
    return infos;
}

Result<std::shared_ptr<Device>> Device::open(const std::string& selector, const DeviceOptions& options) {
    std::shared_ptr<Device> device(new Device());
    device->options_ = options;
    device->instance_ = TRY(create_instance(options.validation));
    if (options.validation) {
        const VkDebugUtilsMessengerCreateInfoEXT create{
            .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
            .messageSeverity =
                VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
            .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
            .pfnUserCallback = on_message,
        };
        const auto make = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(device->instance_, "vkCreateDebugUtilsMessengerEXT"));
        VK_TRY("creating the debug messenger", make(device->instance_, &create, nullptr, &device->messenger_));
    }
    const std::vector<VkPhysicalDevice> physicals = physical_devices(device->instance_);
    std::vector<DeviceInfo> infos;
    infos.reserve(physicals.size());
    for (VkPhysicalDevice physical : physicals) {
        infos.push_back(read_info(device->instance_, physical, static_cast<int>(infos.size())));
    }
    const size_t chosen = TRY(choose(infos, selector));
    device->info_ = infos[chosen];
    TRY(device->create(physicals[chosen]));
    return device;
}

Status Device::create(VkPhysicalDevice physical) {
    physical_ = physical;
    vkGetPhysicalDeviceMemoryProperties(physical, &memory_);
    queue_family_ = *compute_family(physical);

    Features present;
    vkGetPhysicalDeviceFeatures2(physical, &present.all);
    Features enabled;
    for (const Required& feature : kRequired) feature.get(enabled) = VK_TRUE;
    for (const Required& feature : kOptional) feature.get(enabled) = feature.get(present);

    std::vector<const char*> extensions;
    if (info_.capabilities.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (info_.capabilities.host_import_alignment > 0) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
    CooperativeMatrixFeatures matrices{.cooperative_matrix = VK_TRUE};
    if (info_.capabilities.cooperative_matrix) {
        extensions.push_back(kCooperativeMatrixExtension);
        enabled.v13.pNext = &matrices;
    }
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR statistics{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
        .pNext = enabled.v13.pNext,
        .pipelineExecutableInfo = VK_TRUE};
    if (options_.statistics) {
        if (!has(extensions_of(physical), VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) {
            return fail("{} keeps no statistics of its kernels", info_.name);
        }
        extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
        enabled.v13.pNext = &statistics;
    }

    const float priority = 1.0F;
    const VkDeviceQueueCreateInfo queue{.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                        .queueFamilyIndex = queue_family_,
                                        .queueCount = 1,
                                        .pQueuePriorities = &priority};
    const VkDeviceCreateInfo create{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                    .pNext = &enabled.all,
                                    .queueCreateInfoCount = 1,
                                    .pQueueCreateInfos = &queue,
                                    .enabledExtensionCount = static_cast<uint32_t>(extensions.size()),
                                    .ppEnabledExtensionNames = extensions.data()};
    VK_TRY("opening the device", vkCreateDevice(physical, &create, nullptr, &device_));
    vkGetDeviceQueue(device_, queue_family_, 0, &queue_);
    return Ok{};
}

Device::~Device() {
    if (device_ != VK_NULL_HANDLE) vkDestroyDevice(device_, nullptr);  // its Queues have waited for all that they began
    if (messenger_ != VK_NULL_HANDLE) {
        const auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
        destroy(instance_, messenger_, nullptr);
    }
    if (instance_ != VK_NULL_HANDLE) vkDestroyInstance(instance_, nullptr);
}

Status Device::check_alive() const {
    if (lost_) return fail("vulkan:{} ({}) was lost and has not been opened again", info_.index, info_.name);
    return Ok{};
}

Error Device::lose(std::string_view why) {
    lost_ = true;
    return fail("vulkan:{} ({}) is lost, and with it what it was doing: {}; the next request opens it again",
                info_.index, info_.name, why);
}

int Device::validation_messages() {
    return g_validation_messages.load();
}

}  // namespace tandem::vulkan
