// The CPU as a device: the reference ops and, where there are any, faster SIMD kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "device/backend.h"

namespace tandem::cpu {

// Rows of `cols` numbers that a matrix is about to be multiplied with.
struct LinearInput {
    std::string_view weight;
    std::span<const float> rows;
    int64_t cols = 0;
    int64_t expert = 0;  // whose matrix it is, of so many in the weight
    int64_t experts = 1;
};
using LinearObserver = std::function<void(const LinearInput& input)>;

struct Options {
    int threads = 0;         // 0: one per core the process may use
    bool reference = false;  // only the reference ops
    LinearObserver observer = {};
};

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

}  // namespace tandem::cpu
