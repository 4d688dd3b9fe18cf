#include "device/host_memory.h"

#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <system_error>

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

namespace {

// A cache has a folder for each processor that uses it.
struct CacheFolder {
    int level = 0;
    std::string processors;  // "0-7"
    uint64_t size_bytes = 0;
};

CacheFolder read_cache(const std::filesystem::path& folder) {
    CacheFolder cache;
    uint64_t kib = 0;
    std::ifstream(folder / "level") >> cache.level;
    std::ifstream(folder / "shared_cpu_list") >> cache.processors;
    if (std::ifstream(folder / "size") >> kib) cache.size_bytes = kib << 10;  // "32768K"
    return cache;
}

}  // namespace

uint64_t host_cache_bytes(const std::filesystem::path& processors) {
    std::map<std::string, uint64_t> last;  // by who shares it
    int level = 0;
    std::error_code error;
    for (const auto& processor : std::filesystem::directory_iterator(processors, error)) {
        for (const auto& folder : std::filesystem::directory_iterator(processor.path() / "cache", error)) {
            const CacheFolder cache = read_cache(folder.path());
            if (cache.size_bytes == 0 || cache.level < level) continue;
            if (cache.level > level) last.clear();
            level = cache.level;
            last[cache.processors] = cache.size_bytes;
        }
    }
    uint64_t total = 0;
    for (const auto& [shared_by, size_bytes] : last) total += size_bytes;
    return total;
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
