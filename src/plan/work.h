// What a step must move and compute, whatever device runs it: the numerators of "share of the limit".
#pragma once

#include "device/batch.h"
#include "graph/program.h"

namespace tandem::plan {

struct Work {
    double bytes = 0;  // of weights, each read once, and of the cache, read once per sequence; activations are small
    double flops = 0;  // of the products with weights and of attention
};

// Of one step.
Work work_of(const graph::Program& program, const device::Batch& batch, DType kv_dtype);

}  // namespace tandem::plan
