#include "vulkan/recorder.h"

#include <algorithm>

#include "vulkan/kernels/contracts.h"

namespace tandem::vulkan {

namespace {

bool any_overlap(const std::vector<Access>& a, const std::vector<Access>& b) {
    return std::any_of(a.begin(), a.end(), [&](const Access& x) {
        return std::any_of(b.begin(), b.end(), [&](const Access& y) { return x.overlaps(y); });
    });
}

// Only what takes part is named: each stage more makes the GPU wait for more, microseconds at every barrier.
struct Stages {
    VkPipelineStageFlags2 stages;
    VkAccessFlags2 writes;
    VkAccessFlags2 reads;
};
constexpr Stages kCompute{VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT, VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT,
                          VK_ACCESS_2_SHADER_STORAGE_READ_BIT};
constexpr Stages kAll{
    VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_2_COPY_BIT | VK_PIPELINE_STAGE_2_DRAW_INDIRECT_BIT,
    VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT,
    VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_INDIRECT_COMMAND_READ_BIT};

void memory_barrier(VkCommandBuffer commands, const VkMemoryBarrier2& barrier) {
    const VkDependencyInfo dependency{
        .sType = VK_STRUCTURE_TYPE_DEPENDENCY_INFO, .memoryBarrierCount = 1, .pMemoryBarriers = &barrier};
    vkCmdPipelineBarrier2(commands, &dependency);
}

}  // namespace

void Recorder::order(const std::vector<Access>& reads, const std::vector<Access>& writes) {
    if (any_overlap(reads, written_) || any_overlap(writes, written_) || any_overlap(writes, read_)) barrier();
    note(reads, writes);
}

void Recorder::note(const std::vector<Access>& reads, const std::vector<Access>& writes) {
    read_.insert(read_.end(), reads.begin(), reads.end());
    written_.insert(written_.end(), writes.begin(), writes.end());
}

void Recorder::barrier() {
    if (needed_ != nullptr) return;
    const Stages& with = only_compute_ ? kCompute : kAll;
    memory_barrier(commands_, {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                               .srcStageMask = with.stages,
                               .srcAccessMask = with.writes,
                               .dstStageMask = with.stages,
                               .dstAccessMask = with.reads | with.writes});
    read_.clear();
    written_.clear();
    awaited_ = 0;
    ++barriers_;
}

Status Recorder::begin_chain(const Buffer& counters, const Buffer& broken) {
    constexpr uint32_t kLanes = kernels::Clear::workgroup_size();
    const auto count = static_cast<uint32_t>((counters.size_bytes - chain_bytes(0)) / sizeof(uint32_t));
    chain_ = counters;
    chain_at_ = 0;
    return dispatch(kernels::Clear{.params = {.counters = counters.address, .broken = broken.address, .count = count}},
                    {.writes = {whole(counters)}, .groups = {(count + kLanes - 1) / kLanes, 1, 1}});
}

void Recorder::link(KernelCall& call, const Dispatch& dispatch) {
    CHECK(dispatch.indirect == nullptr && chain_bytes(chain_at_ + 1) <= chain_.size_bytes);
    const kernels::Chain chain{.counters = chain_.address, .at = chain_at_++, .awaited = awaited_};
    std::memcpy(call.push.data() + call.chain_at, &chain, sizeof(chain));
    awaited_ = dispatch.groups[0] * dispatch.groups[1] * dispatch.groups[2];
}

Status Recorder::dispatch(const KernelCall& call, const Dispatch& dispatch) {
    const PipelineKey key{.kernel = call.kernel, .constants = call.constants, .subgroup = dispatch.subgroup};
    if (needed_ != nullptr) {
        needed_->insert(key);
        return Ok{};
    }
    VkPipeline pipeline = TRY(pipelines_->get(key));
    std::vector<Access> reads = dispatch.reads;
    if (dispatch.indirect != nullptr) {
        reads.push_back(whole(*dispatch.indirect));
        only_compute_ = false;
    }
    const bool chains = call.chain_at != 0 && dispatch.chains && this->chains();
    if (chains) reads.push_back(whole(chain_));  // which are cleared before the first
    if (chains && awaited_ > 0) {
        note(reads, dispatch.writes);
    } else {
        order(reads, dispatch.writes);
    }
    KernelCall linked = call;
    if (chains)
        link(linked, dispatch);
    else
        awaited_ = 0;
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(commands_, pipelines_->layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, linked.push_bytes,
                       linked.push.data());
    if (dispatch.indirect != nullptr) {
        vkCmdDispatchIndirect(commands_, dispatch.indirect->handle, dispatch.indirect->offset);
    } else {
        vkCmdDispatch(commands_, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]);
    }
    ++dispatches_;
    return Ok{};
}

void Recorder::copy(const Buffer& from, const Buffer& to, uint64_t size_bytes) {
    if (needed_ != nullptr) return;
    CHECK(size_bytes <= from.size_bytes && size_bytes <= to.size_bytes);
    only_compute_ = false;
    order({{from.address, size_bytes}}, {{to.address, size_bytes}});
    const VkBufferCopy region{.srcOffset = from.offset, .dstOffset = to.offset, .size = size_bytes};
    vkCmdCopyBuffer(commands_, from.handle, to.handle, 1, &region);
}

void make_visible(VkCommandBuffer commands) {
    memory_barrier(commands, {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER_2,
                              .srcStageMask = kAll.stages,
                              .srcAccessMask = kAll.writes,
                              .dstStageMask = kAll.stages | VK_PIPELINE_STAGE_2_HOST_BIT,
                              .dstAccessMask = kAll.reads | kAll.writes | VK_ACCESS_2_HOST_READ_BIT});
}

}  // namespace tandem::vulkan
