#include "graph/memory_plan.h"

#include <algorithm>

namespace tandem::graph {

namespace {

// Bytes [begin, end) of the arena, taken until node `last_use` has run.
struct Taken {
    size_t begin;
    size_t end;
    size_t last_use;
};

size_t align(size_t bytes) {
    return (bytes + MemoryPlan::kAlignment - 1) / MemoryPlan::kAlignment * MemoryPlan::kAlignment;
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

MemoryPlan plan_memory(const Program& program, const Extents& extents) {
    const std::vector<size_t> last = last_uses(program);
    MemoryPlan plan{.offset = std::vector<size_t>(program.values.size(), MemoryPlan::kNone)};
    std::vector<Taken> taken;
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        std::erase_if(taken, [&](const Taken& range) { return range.last_use < n; });
        const auto output = static_cast<size_t>(program.nodes[n].output);
        const size_t size = align(program.values[output].type.size_bytes(extents));
        const size_t begin = first_fit(taken, size);
        const Taken range{begin, begin + size, last[output]};
        taken.insert(std::upper_bound(taken.begin(), taken.end(), range,
                                      [](const Taken& a, const Taken& b) { return a.begin < b.begin; }),
                     range);
        plan.offset[output] = begin;
        plan.size_bytes = std::max(plan.size_bytes, range.end);
    }
    return plan;
}

}  // namespace tandem::graph
