// The CPU as a device: the reference ops and, where there are any, faster SIMD kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "device/backend.h"

namespace tandem::cpu {

// Sees the inputs of a matrix product before it is made: rows of `cols` numbers, and the name of the matrix.
using LinearObserver = std::function<void(std::string_view weight, std::span<const float> rows, int64_t cols)>;

struct Options {
    int threads = 0;         // 0: one per core the process may use
    bool reference = false;  // only the reference ops
    LinearObserver observer = {};
};

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace tandem::cpu
