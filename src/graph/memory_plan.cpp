#include "graph/memory_plan.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::graph {

namespace {

// Bytes [begin, end) of the arena, taken until node `last_use` has run.
struct Taken {
    size_t begin;
    size_t end;
    size_t last_use;
};

size_t align(size_t bytes, size_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

std::vector<size_t> last_uses(const Program& program) {
    std::vector<size_t> last(program.values.size(), 0);
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        last[static_cast<size_t>(program.nodes[n].output)] = n;
        for (ValueId input : program.nodes[n].inputs) last[static_cast<size_t>(input)] = n;
    }
    for (const NamedResult& result : program.results) last[static_cast<size_t>(result.value)] = program.nodes.size();
    return last;
}

// The lowest gap of `size` bytes between the ranges taken, which are sorted by begin.
size_t first_fit(const std::vector<Taken>& taken, size_t size) {
    size_t begin = 0;
    for (const Taken& range : taken) {
        if (begin + size <= range.begin) break;
        begin = std::max(begin, range.end);
    }
    return begin;
}

}  // namespace

MemoryPlan place(const std::vector<Lifetime>& values, size_t alignment) {
    MemoryPlan plan{.offset = std::vector<size_t>(values.size(), MemoryPlan::kNone)};
    std::vector<Taken> taken;
    for (size_t i = 0; i < values.size(); ++i) {
        CHECK(i == 0 || values[i - 1].first <= values[i].first);
        std::erase_if(taken, [&](const Taken& range) { return range.last_use < values[i].first; });
        const size_t size = align(values[i].size_bytes, alignment);
        const size_t begin = first_fit(taken, size);
        const Taken range{begin, begin + size, values[i].last};
        taken.insert(std::upper_bound(taken.begin(), taken.end(), range,
                                      [](const Taken& a, const Taken& b) { return a.begin < b.begin; }),
                     range);
        plan.offset[i] = begin;
        plan.size_bytes = std::max(plan.size_bytes, range.end);
    }
    return plan;
}

MemoryPlan plan_memory(const Program& program, const Extents& extents, size_t alignment) {
    const std::vector<size_t> last = last_uses(program);
    std::vector<Lifetime> lifetimes;
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        const auto output = static_cast<size_t>(program.nodes[n].output);
        lifetimes.push_back({program.values[output].type.size_bytes(extents), n, last[output]});
    }
    const MemoryPlan placed = place(lifetimes, alignment);
    MemoryPlan plan{.offset = std::vector<size_t>(program.values.size(), MemoryPlan::kNone),
                    .size_bytes = placed.size_bytes};
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        plan.offset[static_cast<size_t>(program.nodes[n].output)] = placed.offset[n];
    }
    return plan;
}

}  // namespace tandem::graph
