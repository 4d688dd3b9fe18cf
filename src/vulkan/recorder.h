// Recorder: a command buffer filled once and replayed; it puts barriers exactly where data flows from op to op.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
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

// The bytes of a push constant block.
struct Push {
    std::array<std::byte, PipelineCache::kPushBytes> bytes{};
    uint32_t size = 0;

    template <typename T>
    Push(const T& block) : size(sizeof(T)) {  // NOLINT(google-explicit-constructor): any plain block is a push
        static_assert(sizeof(T) <= PipelineCache::kPushBytes && std::is_trivially_copyable_v<T>);
        std::memcpy(bytes.data(), &block, sizeof(T));
    }
};

// The end of the push constants of kernels that can be in a chain, as kernels/chain.glsl has it; the Recorder fills it
// in.
struct Chain {
    VkDeviceAddress counters = 0;
    uint32_t at = 0;
    uint32_t awaited = 0;
};

struct Dispatch {
    PipelineKey pipeline;
    Push push;  // of kernels that chain: ends with a Chain
    std::vector<Access> reads;
    std::vector<Access> writes;
    bool chains = false;  // the kernel waits for the dispatch before by itself, if that chains too
    std::array<uint32_t, 3> groups{1, 1, 1};
    const Buffer* indirect = nullptr;  // three u32 group counts there, in place of `groups`
};

// Ends a recording: everything in it becomes visible to what is submitted later, and to the host once it is done.
void make_visible(VkCommandBuffer commands);

class Recorder {
  public:
    Recorder(PipelineCache& pipelines, VkCommandBuffer commands) : pipelines_(pipelines), commands_(commands) {}

    Status dispatch(const Dispatch& dispatch);
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
    void finish() { make_visible(commands_); }

    int dispatches() const { return dispatches_; }
    int barriers() const { return barriers_; }

  private:
    // A barrier if anything since the last one touches what is read or written now.
    void order(const std::vector<Access>& reads, const std::vector<Access>& writes);
    void note(const std::vector<Access>& reads, const std::vector<Access>& writes);
    Push chained(const Dispatch& dispatch);

    PipelineCache& pipelines_;
    VkCommandBuffer commands_;
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
