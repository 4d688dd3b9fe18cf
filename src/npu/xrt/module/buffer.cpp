#include "npu/xrt/module/buffer.h"

#include <cstring>

#include "npu/xrt/module/guard.h"

#if __has_include(<xrt/experimental/xrt_ext.h>)
#include <xrt/experimental/xrt_ext.h>
#define TANDEM_XRT_EXT 1
#else
#define TANDEM_XRT_EXT 0
#endif

namespace tandem::npu {

namespace {

#if TANDEM_XRT_EXT
xrt::bo imported(const xrt::device& device, std::span<std::byte> memory) {
    return xrt::ext::bo(device, memory.data(), memory.size());
}

xrt::bo allocated(const xrt::device& device, size_t size_bytes) {
    return xrt::ext::bo(device, size_bytes);
}
#else
constexpr xrt::memory_group kHostMemory = 0;  // the first of the topology in every xclbin of ours

xrt::bo imported(const xrt::device& device, std::span<std::byte> memory) {
    return {device, memory.data(), memory.size(), xrt::bo::flags::normal, kHostMemory};
}

xrt::bo allocated(const xrt::device& device, size_t size_bytes) {
    return {device, size_bytes, xrt::bo::flags::host_only, kHostMemory};
}
#endif

}  // namespace

Result<std::shared_ptr<XrtBuffer>> XrtBuffer::create(const xrt::device& device, std::span<std::byte> memory,
                                                     BufferOptions options) {
    if (memory.empty() || reinterpret_cast<uintptr_t>(memory.data()) % Runtime::kPageBytes != 0 ||
        memory.size() % Runtime::kPageBytes != 0) {
        return fail("the NPU takes memory in pages of {} bytes, not {} bytes at {}", Runtime::kPageBytes, memory.size(),
                    static_cast<const void*>(memory.data()));
    }
    Result<xrt::bo> bo = guarded("importing memory", [&] { return imported(device, memory); });
    if (!bo) bo = guarded("allocating a buffer", [&] { return allocated(device, memory.size()); });
    if (!bo) return std::move(bo).error();
    std::byte* mapped = TRY(guarded("mapping a buffer", [&] { return bo->map<std::byte*>(); }));
    return std::shared_ptr<XrtBuffer>(new XrtBuffer(memory, std::move(options), *bo, mapped));
}

Status XrtBuffer::to_device(RunReport& report) {
    if (!is_written()) return Ok{};
    if (copied()) {
        std::memcpy(bo_bytes_, bytes().data(), bytes().size());
        report.copied_bytes += bytes().size();
    }
    TRY(guarded("flushing a buffer", [&] { bo_.sync(XCL_BO_SYNC_BO_TO_DEVICE); }));
    report.flushed_bytes += bytes().size();
    mark_flushed();
    return Ok{};
}

Status XrtBuffer::from_device(uint64_t size_bytes, RunReport& report) {
    const auto size = static_cast<size_t>(size_bytes);
    TRY(guarded("reading a buffer", [&] { bo_.sync(XCL_BO_SYNC_BO_FROM_DEVICE, size, 0); }));
    report.flushed_bytes += size_bytes;
    if (copied()) {
        std::memcpy(bytes().data(), bo_bytes_, size);
        report.copied_bytes += size_bytes;
    }
    return Ok{};
}

}  // namespace tandem::npu
