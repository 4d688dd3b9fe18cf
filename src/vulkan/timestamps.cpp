#include "vulkan/timestamps.h"

#include "base/check.h"

namespace tandem::vulkan {

Result<std::unique_ptr<Timestamps>> Timestamps::create(std::shared_ptr<Device> device, uint32_t count) {
    if (device->capabilities().timestamp_ns == 0) return fail("{} has no timestamps", device->info().name);
    std::unique_ptr<Timestamps> made(new Timestamps(std::move(device)));
    made->count_ = count;
    const VkQueryPoolCreateInfo create{
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = count};
    VK_TRY("creating timestamps", vkCreateQueryPool(made->device_->handle(), &create, nullptr, &made->pool_));
    return made;
}

Timestamps::~Timestamps() {
    vkDestroyQueryPool(device_->handle(), pool_, nullptr);
}

void Timestamps::reset(VkCommandBuffer commands, uint32_t first, uint32_t count) const {
    vkCmdResetQueryPool(commands, pool_, first, count);
}

void Timestamps::write(VkCommandBuffer commands, uint32_t index) const {
    CHECK(index < count_);
    vkCmdWriteTimestamp2(commands, VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT, pool_, index);
}

Result<std::vector<double>> Timestamps::read(uint32_t count) const {
    std::vector<uint64_t> ticks(count);
    VK_TRY("reading timestamps",
           vkGetQueryPoolResults(device_->handle(), pool_, 0, count, ticks.size() * sizeof(uint64_t), ticks.data(),
                                 sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    std::vector<double> nanoseconds;
    nanoseconds.reserve(ticks.size());
    for (uint64_t tick : ticks) {
        nanoseconds.push_back(static_cast<double>(tick - ticks.front()) * device_->capabilities().timestamp_ns);
    }
    return nanoseconds;
}

}  // namespace tandem::vulkan
