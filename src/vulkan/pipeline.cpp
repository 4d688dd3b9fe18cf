#include "vulkan/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"

namespace tandem::vulkan {

const Kernel& find_kernel(std::string_view name) {
    const std::span<const Kernel> kernels = all_kernels();
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.name == name; });
    CHECK(found != kernels.end(), name);
    return *found;
}

std::string_view weight_kernel(std::string_view kernel, DType dtype) {
    return find_kernel(fmt::format("{}.{}", kernel, name(dtype))).name;
}

Result<std::unique_ptr<PipelineCache>> PipelineCache::open(std::shared_ptr<Device> device, std::filesystem::path file) {
    std::unique_ptr<PipelineCache> cache(new PipelineCache(std::move(device)));
    cache->file_ = std::move(file);
    std::string saved;
    if (!cache->file_.empty()) {
        // The driver checks that the data is its own and starts afresh where it is not.
        if (Result<std::string> read = read_text_file(cache->file_)) saved = std::move(*read);
    }
    const VkPipelineCacheCreateInfo create{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                           .initialDataSize = saved.size(),
                                           .pInitialData = saved.data()};
    VkDevice handle = cache->device_->handle();
    VK_TRY("creating the pipeline cache", vkCreatePipelineCache(handle, &create, nullptr, &cache->cache_));
    const VkPushConstantRange range{.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = kPushBytes};
    const VkPipelineLayoutCreateInfo layout{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                            .pushConstantRangeCount = 1,
                                            .pPushConstantRanges = &range};
    VK_TRY("creating the pipeline layout", vkCreatePipelineLayout(handle, &layout, nullptr, &cache->layout_));
    return cache;
}

PipelineCache::~PipelineCache() {
    VkDevice handle = device_->handle();
    if (!file_.empty() && !pipelines_.empty()) {
        size_t size = 0;
        vkGetPipelineCacheData(handle, cache_, &size, nullptr);
        std::string data(size, '\0');
        // Not being able to keep it costs the next start some time and nothing else.
        if (vkGetPipelineCacheData(handle, cache_, &size, data.data()) == VK_SUCCESS) {
            std::error_code ignored;
            std::filesystem::create_directories(file_.parent_path(), ignored);
            static_cast<void>(write_file(file_, data));
        }
    }
    for (const auto& [key, pipeline] : pipelines_) vkDestroyPipeline(handle, pipeline, nullptr);
    vkDestroyPipelineLayout(handle, layout_, nullptr);
    vkDestroyPipelineCache(handle, cache_, nullptr);
}

Result<VkPipeline> PipelineCache::get(const PipelineKey& key) {
    if (const auto found = pipelines_.find(key); found != pipelines_.end()) return found->second;
    const Kernel& kernel = find_kernel(key.kernel);
    VkDevice handle = device_->handle();

    const VkShaderModuleCreateInfo module_create{.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                                 .codeSize = kernel.code.size_bytes(),
                                                 .pCode = kernel.code.data()};
    VkShaderModule module = VK_NULL_HANDLE;
    VK_TRY(fmt::format("loading kernel {}", key.kernel),
           vkCreateShaderModule(handle, &module_create, nullptr, &module));

    std::vector<VkSpecializationMapEntry> entries;
    for (uint32_t i = 0; i < key.constants.size(); ++i) {
        entries.push_back(
            {.constantID = i, .offset = i * static_cast<uint32_t>(sizeof(uint32_t)), .size = sizeof(uint32_t)});
    }
    const VkSpecializationInfo specialization{.mapEntryCount = static_cast<uint32_t>(entries.size()),
                                              .pMapEntries = entries.data(),
                                              .dataSize = key.constants.size() * sizeof(uint32_t),
                                              .pData = key.constants.data()};
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup{
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = key.subgroup};
    const VkComputePipelineCreateInfo create{
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
             .pNext = key.subgroup == 0 ? nullptr : &subgroup,
             // a required size only makes sense for subgroups that are full
             .flags =
                 key.subgroup == 0
                     ? VkPipelineShaderStageCreateFlags{0}
                     : VkPipelineShaderStageCreateFlags{VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT},
             .stage = VK_SHADER_STAGE_COMPUTE_BIT,
             .module = module,
             .pName = "main",
             .pSpecializationInfo = &specialization},
        .layout = layout_,
    };
    VkPipeline pipeline = VK_NULL_HANDLE;
    const VkResult made = vkCreateComputePipelines(handle, cache_, 1, &create, nullptr, &pipeline);
    vkDestroyShaderModule(handle, module, nullptr);
    if (made != VK_SUCCESS) return vulkan_error(fmt::format("compiling kernel {}", key.kernel), made);
    pipelines_.emplace(key, pipeline);
    return pipeline;
}

}  // namespace tandem::vulkan
