// issue_rates: what a core issues in a cycle of a call, by its kernel's shape and by where the buffers lie.
#pragma once

#include "npu/array.h"
#include "npu/design.h"
#include "npu/kernels.h"

namespace tandem::npu {

// Of a design whose names are resolved.
IssueRates issue_rates(const Design& design, const Worker& worker, const Array& array, const Call& call,
                       const Kernel& kernel);

}  // namespace tandem::npu
