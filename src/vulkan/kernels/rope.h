// The angles of rope as kernels take them (kernels/rope.glsl).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

// Angles as 2^64ths of a turn: the device multiplies them with a position without rounding.
std::vector<uint64_t> turns_of(const std::vector<float>& inv_freq);

}  // namespace tandem::vulkan
