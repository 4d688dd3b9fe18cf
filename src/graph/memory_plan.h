// Memory planning: where each computed value of a Program lies in one arena, values that never live at once sharing
// bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/program.h"

namespace tandem::graph {

struct MemoryPlan {
    static constexpr size_t kAlignment = 64;  // a cache line, and the widest SIMD load
    static constexpr size_t kNone = static_cast<size_t>(-1);

    std::vector<size_t> offset;  // per value; kNone for inputs and weights
    size_t size_bytes = 0;
};

// A value of so many bytes that is made by step `first` and read up to step `last`.
struct Lifetime {
    size_t size_bytes = 0;
    size_t first = 0;
    size_t last = 0;
};

// In the order of `first`. Offsets are multiples of `alignment`.
MemoryPlan place(const std::vector<Lifetime>& values, size_t alignment = MemoryPlan::kAlignment);

// `extents` are the most tokens and outputs a step may bring. A value lives from the node that makes it to the last
// that reads it; results live to the end.
MemoryPlan plan_memory(const Program& program, const Extents& extents, size_t alignment = MemoryPlan::kAlignment);

}  // namespace tandem::graph
