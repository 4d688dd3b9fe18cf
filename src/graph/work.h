// Work: what an op must move and compute in a step, whatever device runs it.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "graph/tensor_type.h"

namespace tandem::graph {

struct Work {
    double bytes = 0;  // of weights, each read once, and of the cache, read once per sequence; activations are small
    double flops = 0;  // of the products with weights and of attention

    Work& operator+=(const Work& other) {
        bytes += other.bytes;
        flops += other.flops;
        return *this;
    }
};

// What a step brings, as far as its work depends on it.
struct StepShape {
    struct Sequence {
        int past = 0;  // positions before its rows
        int rows = 0;
    };
    Extents extents;
    std::vector<Sequence> sequences = {};
    DType kv_dtype = DType::f16;
};

}  // namespace tandem::graph
