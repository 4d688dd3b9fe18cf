#include "device/host_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace tandem::device {

namespace {

uint64_t mib(uint64_t bytes) {
    return (bytes + (uint64_t{1} << 20) - 1) >> 20;
}

}  // namespace

HostMemory host_memory() {
    HostMemory memory;
    std::ifstream file("/proc/meminfo");
    std::string key;
    uint64_t kib = 0;
    std::string rest;
    while (file >> key >> kib && std::getline(file, rest)) {
        if (key == "MemTotal:") memory.size_bytes = kib << 10;
        if (key == "MemAvailable:") memory.available_bytes = kib << 10;
    }
    return memory;
}

Result<HostBuffer> HostBuffer::allocate(uint64_t size_bytes, std::string_view purpose, std::string_view remedy) {
    const uint64_t available = host_memory().available_bytes;
    const auto refuse = [&] {
        return fail("{} needs {} MiB of memory but {} MiB are available: {}", purpose, mib(size_bytes), mib(available),
                    remedy);
    };
    if (size_bytes > std::numeric_limits<size_t>::max() - kPageBytes) return refuse();
    if (available > 0 && size_bytes > available) return refuse();
    const uint64_t rounded = whole_pages(size_bytes);
    HostBuffer buffer;
    if (rounded == 0) return buffer;
    buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, rounded)));
    if (buffer.data_ == nullptr) return refuse();
    buffer.size_ = static_cast<size_t>(size_bytes);
    return buffer;
}

}  // namespace tandem::device
