// Host memory: what the machine has, and buffers of whole pages that are refused rather than overcommitted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"

namespace tandem::device {

struct HostMemory {
    uint64_t size_bytes = 0;
    uint64_t available_bytes = 0;
};

// From /proc/meminfo; zeros when it cannot be read.
HostMemory host_memory();

// The processors' caches of the last level together, as the system describes them; 0 when it does not.
uint64_t host_cache_bytes(const std::filesystem::path& processors = "/sys/devices/system/cpu");

// Pages of its own, so that devices can import it.
class HostBuffer {
  public:
    static constexpr uint64_t kPageBytes = 4096;
    static constexpr uint64_t whole_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

    HostBuffer() = default;

    // Fails when less is available; `purpose` and `remedy` become part of the message.
    static Result<HostBuffer> allocate(uint64_t size_bytes, std::string_view purpose, std::string_view remedy);

    std::byte* data() const { return data_.get(); }
    std::span<std::byte> bytes() const { return {data_.get(), size_}; }
    // With the rest of the last page.
    std::span<std::byte> pages() const { return {data_.get(), static_cast<size_t>(whole_pages(size_))}; }

  private:
    struct Free {
        void operator()(std::byte* data) const { std::free(data); }
    };
    std::unique_ptr<std::byte, Free> data_;
    size_t size_ = 0;
};

}  // namespace tandem::device
