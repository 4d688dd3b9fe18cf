// What a step must move and compute, whatever device runs it: the numerators of "share of the limit".
#pragma once

#include "device/batch.h"
#include "graph/program.h"
#include "graph/work.h"

namespace tandem::plan {

using graph::Work;

// Of one step: the sum of what its ops say.
Work work_of(const graph::Program& program, const device::Batch& batch, DType kv_dtype);

}  // namespace tandem::plan
