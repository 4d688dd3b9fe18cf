// What a model needs of a device's memory, before anything is allocated: weights, cache, what steps compute in.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/backend.h"
#include "graph/program.h"

namespace tandem::engine {

// What it is to be run for.
struct MemoryShape {
    int context = 0;    // tokens of a sequence
    int sequences = 1;  // at once
    int rows = 256;     // of a step
    DType kv_dtype = DType::f16;
};

struct MemoryNeed {
    uint64_t weight_bytes = 0;
    uint64_t cache_bytes = 0;
    uint64_t work_bytes = 0;

    uint64_t total() const { return weight_bytes + cache_bytes + work_bytes; }
};

// The cache as the engine would lay it out.
device::CacheShape cache_need(const graph::Program& program, const MemoryShape& shape);

// A device may need more for its own layouts and compiled kernels.
MemoryNeed memory_need(const graph::Program& program, const MemoryShape& shape);

// The longest context that fits, of at most `most`; 0: not even the weights do.
int longest_context(const graph::Program& program, MemoryShape shape, uint64_t room_bytes, int most);

}  // namespace tandem::engine
