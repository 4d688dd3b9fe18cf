// The text of the kernels in npu/kernels/, as it was when the program was built.
#pragma once

#include <span>
#include <string_view>

namespace tandem::npu {

struct KernelSource {
    std::string_view name;  // "matmul_i8.cc", "vector_math.h"
    std::string_view text;
};

std::span<const KernelSource> kernel_sources();  // defined by cmake/npu_sources.cmake

}  // namespace tandem::npu
