// Host memory: what the machine has, and aligned buffers that are refused rather than overcommitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace tandem::cpu {

struct HostMemory {
    uint64_t size_bytes = 0;
    uint64_t available_bytes = 0;
};

// From /proc/meminfo; zeros when it cannot be read.
HostMemory host_memory();

// Bytes aligned to 64.
class Buffer {
  public:
    Buffer() = default;

    // Fails when less is available; `purpose` and `remedy` become part of the message.
    static Result<Buffer> allocate(uint64_t size_bytes, std::string_view purpose, std::string_view remedy);

    std::byte* data() const { return data_.get(); }
    std::span<std::byte> bytes() const { return {data_.get(), size_}; }

  private:
    struct Free {
        void operator()(std::byte* data) const { std::free(data); }
    };
    std::unique_ptr<std::byte, Free> data_;
    size_t size_ = 0;
};

}  // namespace tandem::cpu
