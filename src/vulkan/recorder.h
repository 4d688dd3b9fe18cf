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

struct Dispatch {
    PipelineKey pipeline;
    Push push;
    std::vector<Access> reads;
    std::vector<Access> writes;
    std::array<uint32_t, 3> groups{1, 1, 1};
    const Buffer* indirect = nullptr;  // three u32 group counts there, in place of `groups`
};

// Ends a recording: everything in it becomes visible to what is submitted later, and to the host once it is done.
void make_visible(VkCommandBuffer commands);

class Recorder {
  public:
    Recorder(PipelineCache& pipelines, VkCommandBuffer commands) : pipelines_(pipelines), commands_(commands) {}

    Status dispatch(const Dispatch& dispatch);
    void copy(const Buffer& from, const Buffer& to, uint64_t size_bytes);
    // Everything recorded so far ends before what follows begins.
    void barrier();
    void finish() { make_visible(commands_); }

    int dispatches() const { return dispatches_; }
    int barriers() const { return barriers_; }

  private:
    // A barrier if anything since the last one touches what is read or written now.
    void order(const std::vector<Access>& reads, const std::vector<Access>& writes);

    PipelineCache& pipelines_;
    VkCommandBuffer commands_;
    std::vector<Access> read_;     // since the last barrier
    std::vector<Access> written_;  // since the last barrier
    bool only_compute_ = true;     // no copy and nothing indirect so far
    int dispatches_ = 0;
    int barriers_ = 0;
};

}  // namespace tandem::vulkan
