#include "vulkan/pipeline.h"

#include <algorithm>

#include "base/check.h"
#include "vulkan/pipeline_file.h"

namespace tandem::vulkan {

const Kernel& find_kernel(std::string_view name) {
    const std::span<const Kernel> kernels = all_kernels();
    const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const Kernel& k) { return k.name == name; });
    CHECK(found != kernels.end(), name);
    return *found;
}

Result<std::unique_ptr<PipelineCache>> PipelineCache::open(std::shared_ptr<Device> device,
                                                           const std::filesystem::path& directory) {
    std::unique_ptr<PipelineCache> cache(new PipelineCache(std::move(device)));
    if (!directory.empty()) {
        cache->file_ = directory / pipeline_file_name(*cache->device_);
        cache->saved_ = read_pipeline_file(cache->file_, *cache->device_);
    }
    const VkPipelineCacheCreateInfo create{.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
                                           .initialDataSize = cache->saved_.size(),
                                           .pInitialData = cache->saved_.data()};
    VkDevice handle = cache->device_->handle();
    VK_TRY("creating the pipeline cache", vkCreatePipelineCache(handle, &create, nullptr, &cache->cache_));
    const VkPushConstantRange range{.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .offset = 0, .size = kPushBytes};
    const VkPipelineLayoutCreateInfo layout{.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                            .pushConstantRangeCount = 1,
                                            .pPushConstantRanges = &range};
    VK_TRY("creating the pipeline layout", vkCreatePipelineLayout(handle, &layout, nullptr, &cache->layout_));
    return cache;
}

void PipelineCache::save() const {
    size_t size = 0;
    vkGetPipelineCacheData(device_->handle(), cache_, &size, nullptr);
    std::string data(size, '\0');
    if (vkGetPipelineCacheData(device_->handle(), cache_, &size, data.data()) != VK_SUCCESS || data == saved_) return;
    write_pipeline_file(file_, data);
}

PipelineCache::~PipelineCache() {
    VkDevice handle = device_->handle();
    if (!file_.empty() && !pipelines_.empty() && !device_->lost()) save();
    for (const auto& [key, pipeline] : pipelines_) vkDestroyPipeline(handle, pipeline, nullptr);
    vkDestroyPipelineLayout(handle, layout_, nullptr);
    vkDestroyPipelineCache(handle, cache_, nullptr);
}

Result<VkPipeline> PipelineCache::get(const PipelineKey& key) {
    std::unique_lock lock(mutex_);
    for (;;) {
        const auto [entry, is_new] = pipelines_.try_emplace(key, VK_NULL_HANDLE);
        if (entry->second != VK_NULL_HANDLE) return entry->second;
        if (is_new) break;
        made_.wait(lock);
    }
    lock.unlock();
    Result<VkPipeline> pipeline = compile(key);
    lock.lock();
    if (pipeline) {
        pipelines_[key] = *pipeline;
    } else {
        pipelines_.erase(key);  // the next to ask hears the same
    }
    made_.notify_all();
    return pipeline;
}

size_t PipelineCache::size() const {
    const std::lock_guard lock(mutex_);
    return pipelines_.size();
}

Result<VkPipeline> PipelineCache::compile(const PipelineKey& key) const {
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
    const auto kept = [&](bool wanted, VkPipelineCreateFlags flag) { return wanted ? flag : VkPipelineCreateFlags{0}; };
    const VkComputePipelineCreateInfo create{
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = kept(device_->options().statistics, VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR) |
                 kept(device_->options().kernel_text, VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR),
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
    return pipeline;
}

}  // namespace tandem::vulkan
