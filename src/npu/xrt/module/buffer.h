// XrtBuffer: host memory as XRT has it, in place where the driver can import it and through a copy where it cannot.
#pragma once

#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>

#include "npu/runtime.h"

namespace tandem::npu {

class XrtBuffer final : public Buffer {
  public:
    static Result<std::shared_ptr<XrtBuffer>> create(const xrt::device& device, std::span<std::byte> memory,
                                                     BufferOptions options);
    const xrt::bo& bo() const { return bo_; }
    // The driver cannot import the memory, so every run copies.
    bool copied() const { return bo_bytes_ != bytes().data(); }

    // Before a run, if the host has written to it; after one that writes `size_bytes`. Both add what they did.
    Status to_device(RunReport& report);
    Status from_device(uint64_t size_bytes, RunReport& report);

  private:
    XrtBuffer(std::span<std::byte> bytes, BufferOptions options, xrt::bo bo, std::byte* bo_bytes)
        : Buffer(bytes, std::move(options.keeper)), bo_(std::move(bo)), bo_bytes_(bo_bytes) {}

    xrt::bo bo_;
    std::byte* bo_bytes_;
};

}  // namespace tandem::npu
