// What is said to be needed, against what is taken.
#include "engine/memory_need.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "cpu/backend.h"
#include "engine/runner.h"
#include "models/synthetic.h"

namespace tandem::engine {
namespace {

struct Shape {
    models::MemoryFile file;
    std::unique_ptr<format::Checkpoint> checkpoint;
    models::Model model;
};

Shape open_shape(std::string_view name) {
    const auto found = std::ranges::find(models::named_shapes(), name, &models::NamedShape::name);
    Shape shape{.file = models::make_empty_gguf(found->spec).value(), .checkpoint = {}, .model = {}};
    shape.checkpoint = std::make_unique<format::Checkpoint>(
        format::Checkpoint::from_gguf(shape.file.bytes(), std::string(name)).value());
    shape.model = models::load(*shape.checkpoint).value();
    return shape;
}

#ifndef __SANITIZE_ADDRESS__
// That this process has from the system for what it allocated.
uint64_t allocated_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

TEST(MemoryNeed, IsWithinAPercentOfWhatACpuAllocates) {
    const Shape shape = open_shape("gemma3-1b");
    constexpr int kSequences = 4;
    constexpr int kContext = 1024;
    const MemoryNeed need =
        memory_need(shape.model.program, {.context = kContext, .sequences = kSequences, .rows = 256});
    EXPECT_EQ(need.weight_bytes, shape.model.weights.size_bytes());
    const auto backend = cpu::make_backend({.threads = 2}).value();
    const CachePlan plan{.context = kContext, .sequences = kSequences, .rows = 256};
    const uint64_t before = allocated_bytes();
    const auto runner =
        Runner::open(shape.model, *backend,
                     {.rows = 256,
                      .outputs = kSequences,
                      .groups = plan_cache(shape.model.program, plan, std::numeric_limits<uint64_t>::max())})
            .value();
    ASSERT_TRUE(runner->make_ready(Wanted::tokens));
    const uint64_t taken = allocated_bytes() - before;
    EXPECT_EQ(need.cache_bytes, runner->cache_bytes());
    const auto all = static_cast<double>(taken + shape.model.weights.size_bytes());
    EXPECT_NEAR(static_cast<double>(need.total()) / all, 1, 0.01)
        << need.cache_bytes << " and " << need.work_bytes << " of " << taken;
}
#endif

TEST(MemoryNeed, FindsTheLongestContextThatFits) {
    const Shape shape = open_shape("gemma3-1b");
    const graph::Program& program = shape.model.program;
    const auto needed = [&](int context) { return memory_need(program, {.context = context}).total(); };
    const int longest = longest_context(program, {}, needed(5000), 32768);
    EXPECT_GE(longest, 5000);
    EXPECT_LE(needed(longest), needed(5000));
    EXPECT_GT(needed(longest + 1), needed(5000));
    EXPECT_EQ(longest_context(program, {}, needed(1 << 20), 32768), 32768) << "no more than was asked for";
    EXPECT_EQ(longest_context(program, {}, memory_need(program, {}).weight_bytes, 32768), 0);
}

}  // namespace
}  // namespace tandem::engine
