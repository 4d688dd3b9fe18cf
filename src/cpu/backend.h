// The CPU as a device: the reference ops and, where there are any, faster SIMD kernels.
#pragma once

#include <memory>

#include "device/backend.h"

namespace tandem::cpu {

struct Options {
    int threads = 0;         // 0: one per core the process may use
    bool reference = false;  // only the reference ops
};

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace tandem::cpu
