// Recorder: a command buffer filled once and replayed; it puts barriers exactly where data flows from op to op.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "vulkan/memory.h"
#include "vulkan/pipeline.h"

namespace tandem::vulkan {

// Bytes of device memory that a dispatch reads or writes.
struct Access {
    VkDeviceAddress begin = 0;
    uint64_t size_bytes = 0;

    bool overlaps(const Access& other) const {
        return begin < other.begin + other.size_bytes && other.begin < begin + size_bytes;
    }
};

inline Access whole(const Buffer& buffer) {
    return {buffer.address, buffer.size_bytes};
}

template <typename Kernel>
concept Callable = std::is_trivially_copyable_v<typename Kernel::Params>;

// A kernel of kernels/contracts.h with all that it takes, whichever it is.
struct KernelCall {
    std::string_view kernel;
    std::vector<uint32_t> constants;
    std::array<std::byte, PipelineCache::kPushBytes> push{};
    uint32_t push_bytes = 0;
    uint32_t chain_at = 0;  // byte of the push constants where their Chain is; 0: they have none

    template <Callable Kernel>
    KernelCall(const Kernel& call)  // NOLINT(google-explicit-constructor): any kernel can be called
        : kernel(call.name()), constants(call.values()), push_bytes(sizeof(call.params)) {
        static_assert(sizeof(call.params) <= PipelineCache::kPushBytes);
        std::memcpy(push.data(), &call.params, sizeof(call.params));
        if constexpr (requires { call.params.chain; }) chain_at = offsetof(typename Kernel::Params, chain);
    }
};

// What a call of a kernel touches, and by how many workgroups.
struct Dispatch {
    std::vector<Access> reads = {};
    std::vector<Access> writes = {};
    std::array<uint32_t, 3> groups{1, 1, 1};
    const Buffer* indirect = nullptr;  // three u32 group counts there, in place of `groups`
    uint32_t subgroup = 0;             // required size; 0: the device's own choice
    // Whether the kernel, if it has a Chain, waits for the dispatch before by itself, if that does too.
    bool chains = true;
};

// Ends a recording: everything in it becomes visible to what is submitted later, and to the host once it is done.
void make_visible(VkCommandBuffer commands);

class Recorder {
  public:
    Recorder(PipelineCache& pipelines, VkCommandBuffer commands) : pipelines_(&pipelines), commands_(commands) {}
    // Records nothing, and only notes which pipelines it would take.
    explicit Recorder(std::set<PipelineKey>& needed) : needed_(&needed) {}

    Status dispatch(const KernelCall& call, const Dispatch& dispatch);
    // From here on dispatches that chain follow one another without a barrier: each waits for the workgroups of the one
    // before, so that its first loads are under way while that one ends. This takes a device that begins the workgroups
    // of dispatches in their order; one that does not is found out, and `broken` set to 1. `counters`:
    // chain_bytes() of as many dispatches as follow.
    Status begin_chain(const Buffer& counters, const Buffer& broken);
    bool chains() const { return chain_.size_bytes > 0; }
    static constexpr uint64_t chain_bytes(uint64_t dispatches) {
        return sizeof(VkDeviceAddress) + dispatches * sizeof(uint32_t);
    }
    void copy(const Buffer& from, const Buffer& to, uint64_t size_bytes);
    // Everything recorded so far ends before what follows begins.
    void barrier();
    void finish() {
        if (needed_ == nullptr) make_visible(commands_);
    }

    int dispatches() const { return dispatches_; }
    int barriers() const { return barriers_; }

  private:
    // A barrier if anything since the last one touches what is read or written now.
    void order(const std::vector<Access>& reads, const std::vector<Access>& writes);
    void note(const std::vector<Access>& reads, const std::vector<Access>& writes);
    // Fills in the Chain of the next link.
    void link(KernelCall& call, const Dispatch& dispatch);

    std::set<PipelineKey>* needed_ = nullptr;
    PipelineCache* pipelines_ = nullptr;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
    std::vector<Access> read_;     // since the last barrier
    std::vector<Access> written_;  // since the last barrier
    bool only_compute_ = true;     // no copy and nothing indirect so far
    Buffer chain_;                 // counters; none: no chain
    uint32_t chain_at_ = 0;        // the next counter
    uint32_t awaited_ = 0;         // workgroups of the last dispatch, if it chains; a barrier makes it 0
    int dispatches_ = 0;
    int barriers_ = 0;
};

}  // namespace tandem::vulkan
