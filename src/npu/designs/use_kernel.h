// use_kernel: how a design takes up a kernel of the table.
#pragma once

#include <string_view>
#include <vector>

#include "npu/design.h"

namespace tandem::npu {

// `buffers` are the types of its buffers in their order, which a design may see otherwise than the kernel: f32 scales
// in an object of bytes. The kernel must be there.
KernelUse use_kernel(std::string_view symbol, const std::vector<ObjectType>& buffers);

}  // namespace tandem::npu
