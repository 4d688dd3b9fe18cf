#include "vulkan/statistics.h"

#include <algorithm>
#include <vector>

namespace tandem::vulkan {

namespace {

double number_of(const VkPipelineExecutableStatisticKHR& statistic) {
    switch (statistic.format) {
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
            return statistic.value.b32 == VK_TRUE ? 1 : 0;
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
            return static_cast<double>(statistic.value.i64);
        case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
            return static_cast<double>(statistic.value.u64);
        default:
            return statistic.value.f64;
    }
}

// A list that the driver gives in two calls: first how long it is.
template <typename T, typename Get>
std::vector<T> all_of(const Get& get, VkStructureType type) {
    uint32_t count = 0;
    get(&count, static_cast<T*>(nullptr));
    std::vector<T> list(count);
    for (T& each : list) each.sType = type;
    get(&count, list.data());
    list.resize(count);
    return list;
}

}  // namespace

Result<PipelineStatistics> read_statistics(const Device& device, VkPipeline pipeline) {
    VkDevice handle = device.handle();
    const auto executables = reinterpret_cast<PFN_vkGetPipelineExecutablePropertiesKHR>(
        vkGetDeviceProcAddr(handle, "vkGetPipelineExecutablePropertiesKHR"));
    const auto statistics = reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(
        vkGetDeviceProcAddr(handle, "vkGetPipelineExecutableStatisticsKHR"));
    const auto representations = reinterpret_cast<PFN_vkGetPipelineExecutableInternalRepresentationsKHR>(
        vkGetDeviceProcAddr(handle, "vkGetPipelineExecutableInternalRepresentationsKHR"));
    if (!device.options().statistics || executables == nullptr) return fail("the device was opened without statistics");

    const VkPipelineInfoKHR info{.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, .pipeline = pipeline};
    const auto parts = all_of<VkPipelineExecutablePropertiesKHR>(
        [&](uint32_t* count, auto* list) { return executables(handle, &info, count, list); },
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR);
    if (parts.size() != 1) return fail("{} made {} programs of one kernel", device.info().name, parts.size());
    PipelineStatistics result{.subgroup = parts[0].subgroupSize};

    const VkPipelineExecutableInfoKHR which{.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                            .pipeline = pipeline};
    const auto numbers = all_of<VkPipelineExecutableStatisticKHR>(
        [&](uint32_t* count, auto* list) { return statistics(handle, &which, count, list); },
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR);
    for (const VkPipelineExecutableStatisticKHR& number : numbers) result.numbers[number.name] = number_of(number);

    if (!device.options().kernel_text) return result;
    auto texts = all_of<VkPipelineExecutableInternalRepresentationKHR>(
        [&](uint32_t* count, auto* list) { return representations(handle, &which, count, list); },
        VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR);
    if (texts.empty()) return result;
    std::vector<std::string> contents;
    for (const auto& text : texts) contents.emplace_back(text.dataSize, '\0');
    for (size_t i = 0; i < texts.size(); ++i) texts[i].pData = contents[i].data();
    auto count = static_cast<uint32_t>(texts.size());
    representations(handle, &which, &count, texts.data());
    // From the source to what the device runs.
    result.instructions = contents[contents.size() - std::min<size_t>(contents.size(), 2)].c_str();
    result.assembly = contents.back().c_str();
    return result;
}

}  // namespace tandem::vulkan
