#include "engine/memory_need.h"

#include <limits>

#include "engine/runner.h"
#include "graph/memory_plan.h"

namespace tandem::engine {

device::CacheShape cache_need(const graph::Program& program, const MemoryShape& shape) {
    const CachePlan plan{
        .context = shape.context, .sequences = shape.sequences, .rows = shape.rows, .dtype = shape.kv_dtype};
    return cache_shape(program, plan, plan_cache(program, plan, std::numeric_limits<uint64_t>::max()));
}

MemoryNeed memory_need(const graph::Program& program, const MemoryShape& shape) {
    MemoryNeed need;
    for (const graph::Value& value : program.values) {
        if (value.kind == graph::Value::Kind::weight) need.weight_bytes += value.type.size_bytes({});
    }
    need.cache_bytes = cache_need(program, shape).size_bytes();
    const graph::Program drawing = graph::keep_results(program, {"next"});
    need.work_bytes = graph::plan_memory(drawing, {.tokens = shape.rows, .outputs = shape.sequences}).size_bytes;
    return need;
}

int longest_context(const graph::Program& program, MemoryShape shape, uint64_t room_bytes, int most) {
    const auto fits = [&](int context) {
        shape.context = context;
        return memory_need(program, shape).total() <= room_bytes;
    };
    int longest = 0;
    for (int step = 1 << 24; step > 0; step /= 2) {
        if (longest + step <= most && fits(longest + step)) longest += step;
    }
    return longest;
}

}  // namespace tandem::engine
