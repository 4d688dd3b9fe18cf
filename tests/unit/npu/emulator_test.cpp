// The emulator with small kernels of its own: FIFOs, links, access patterns, and what it refuses.
#include "npu/emulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <random>

#include "npu/array.h"
#include "npu/host_schedule.h"
#include "npu/walk.h"

namespace tandem::npu {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// copy_add(from, to, count, number): to = from + number.
void copy_add(std::span<const KernelArgument> arguments) {
    const auto* from = static_cast<const int32_t*>(arguments[0].data);
    auto* to = static_cast<int32_t*>(arguments[1].data);
    for (int32_t i = 0; i < arguments[2].value; ++i) to[i] = from[i] + arguments[3].value;
}

// sum_two(a, b, to, count)
void sum_two(std::span<const KernelArgument> arguments) {
    const auto* a = static_cast<const int32_t*>(arguments[0].data);
    const auto* b = static_cast<const int32_t*>(arguments[1].data);
    auto* to = static_cast<int32_t*>(arguments[2].data);
    for (int32_t i = 0; i < arguments[3].value; ++i) to[i] = a[i] + b[i];
}

Status any_sizes(std::span<const KernelArgument> /*arguments*/) {
    return Ok{};
}

const Kernel* test_kernel(std::string_view name) {
    const KernelParameter number{};
    const KernelParameter in{ArgumentKind::input, Element::i32};
    const KernelParameter out{ArgumentKind::output, Element::i32};
    static const std::array kernels{Kernel{.name = "copy_add",
                                           .source = "t.cc",
                                           .parameters = {in, out, number, number},
                                           .call = copy_add,
                                           .check_sizes = any_sizes},
                                    Kernel{.name = "sum_two",
                                           .source = "t.cc",
                                           .parameters = {in, in, out, number},
                                           .call = sum_two,
                                           .check_sizes = any_sizes}};
    for (const Kernel& kernel : kernels) {
        if (kernel.name == name) return &kernel;
    }
    return nullptr;
}

Design named(std::string name) {
    Design design;
    design.name = std::move(name);
    design.array = "npu1";
    return design;
}

constexpr ObjectType ints(int64_t count) {
    return {Element::i32, count};
}

std::vector<KernelUse> uses(int64_t count) {
    const KernelUse::Argument buffer{.buffer = ints(count)};
    const KernelUse::Argument number{.number = true};
    return {{.symbol = "copy_add", .source = "t.cc", .arguments = {buffer, buffer, number, number}},
            {.symbol = "sum_two", .source = "t.cc", .arguments = {buffer, buffer, buffer, number}}};
}

std::vector<Statement> copy_loop(const std::string& from, const std::string& to, int32_t count, int32_t number,
                                 int64_t times) {
    return {Loop{.count = times,
                 .body = {Acquire{from}, Acquire{to},
                          Call{"copy_add", {ObjectArgument{from}, ObjectArgument{to}, count, number}}, Release{from},
                          Release{to}}}};
}

// Objects of 16 numbers from the host through one core and back, `objects` of them.
Design one_core(int64_t objects) {
    Design design = named("one_core");
    design.fifos = {{.name = "in", .producer = {0, 0}, .consumers = {{0, 2}}, .object = ints(16)},
                    {.name = "out", .producer = {0, 2}, .consumers = {{0, 0}}, .object = ints(16)}};
    design.kernels = uses(16);
    design.workers = {{.tile = {0, 2}, .body = copy_loop("in", "out", 16, 100, objects)}};
    design.sequence.arguments = {{"a", ints(objects * 16)}, {"b", ints(objects * 16)}};
    design.sequence.transfers = {{.fifo = "in", .argument = 0, .access = {{objects * 16, 1}}},
                                 {.fifo = "out", .argument = 1, .access = {{objects * 16, 1}}, .wait = true}};
    return design;
}

std::span<std::byte> bytes_of(std::vector<int32_t>& values) {
    return std::as_writable_bytes(std::span(values));
}

Result<Activity> emulate(const Design& design, std::vector<std::vector<int32_t>*> arguments) {
    Emulator emulator = TRY(Emulator::make(design, test_kernel));
    std::vector<std::span<std::byte>> spans;
    spans.reserve(arguments.size());
    for (std::vector<int32_t>* argument : arguments) spans.push_back(bytes_of(*argument));
    return emulator.run(spans);
}

std::string error_of(const Design& design, std::vector<std::vector<int32_t>*> arguments) {
    const Result<Activity> result = emulate(design, std::move(arguments));
    return result ? "no error" : result.error().message;
}

std::vector<int32_t> counting(size_t count) {
    std::vector<int32_t> values(count);
    std::iota(values.begin(), values.end(), 0);
    return values;
}

TEST(Emulator, MovesObjectsThroughACoreAndCountsThem) {
    std::vector<int32_t> a = counting(80);
    std::vector<int32_t> b(80);
    Emulator emulator = *Emulator::make(one_core(5), test_kernel);
    for (int run = 0; run < 2; ++run) {  // a design can run again
        std::fill(b.begin(), b.end(), 0);
        const std::array<std::span<std::byte>, 2> arguments{bytes_of(a), bytes_of(b)};
        const Activity activity = *emulator.run(arguments);
        for (int32_t i = 0; i < 80; ++i) EXPECT_EQ(b[static_cast<size_t>(i)], i + 100);
        EXPECT_EQ(activity.tiles.at(0).calls, 5U);
        ASSERT_EQ(activity.streams.size(), 2U);
        EXPECT_EQ(activity.streams[0].size_bytes, 320U);
        ASSERT_EQ(activity.host.size(), 2U);
        EXPECT_TRUE(activity.host[0].to_array);
        EXPECT_FALSE(activity.host[1].to_array);
        EXPECT_EQ(activity.host[1].size_bytes, 320U);
    }
}

// host -> mem tile -> both cores -> mem tile -> host: 2 objects in one.
TEST(Emulator, BroadcastsAndJoins) {
    Design design = named("broadcast");
    design.fifos = {{.name = "in", .producer = {0, 0}, .consumers = {{0, 1}}, .object = ints(16)},
                    {.name = "all", .producer = {0, 1}, .consumers = {{0, 2}, {0, 3}}, .object = ints(16)},
                    {.name = "low", .producer = {0, 2}, .consumers = {{0, 1}}, .object = ints(16), .depth = 1},
                    {.name = "high", .producer = {0, 3}, .consumers = {{0, 1}}, .object = ints(16)},
                    {.name = "out", .producer = {0, 1}, .consumers = {{0, 0}}, .object = ints(32)}};
    design.links = {{.from = {"in"}, .to = {"all"}}, {.from = {"low", "high"}, .to = {"out"}, .offsets = {0, 16}}};
    design.kernels = uses(16);
    design.workers = {{.tile = {0, 2}, .body = copy_loop("all", "low", 16, 1000, 4)},
                      {.tile = {0, 3}, .body = copy_loop("all", "high", 16, 2000, 4)}};
    design.sequence.arguments = {{"a", ints(64)}, {"b", ints(128)}};
    design.sequence.transfers = {{.fifo = "in", .argument = 0, .access = {{64, 1}}},
                                 {.fifo = "out", .argument = 1, .access = {{128, 1}}, .wait = true}};
    std::vector<int32_t> a = counting(64);
    std::vector<int32_t> b(128);
    const Result<Activity> activity = emulate(design, {&a, &b});
    ASSERT_TRUE(activity) << activity.error().message;
    for (int32_t i = 0; i < 64; ++i) {
        const int32_t at = i / 16 * 32 + i % 16;
        EXPECT_EQ(b[static_cast<size_t>(at)], i + 1000);
        EXPECT_EQ(b[static_cast<size_t>(at + 16)], i + 2000);
    }
}

// Each core gets its half of an object, then one adds up what its neighbour hands on through shared memory.
TEST(Emulator, DistributesAndSharesMemoryBetweenNeighbours) {
    Design design = named("distribute");
    design.fifos = {{.name = "in", .producer = {0, 0}, .consumers = {{0, 1}}, .object = ints(32)},
                    {.name = "low", .producer = {0, 1}, .consumers = {{0, 2}}, .object = ints(16)},
                    {.name = "high", .producer = {0, 1}, .consumers = {{0, 3}}, .object = ints(16)},
                    {.name = "hand", .producer = {0, 2}, .consumers = {{0, 3}}, .object = ints(16), .depth = 1},
                    {.name = "out", .producer = {0, 3}, .consumers = {{0, 0}}, .object = ints(16)}};
    design.links = {{.from = {"in"}, .to = {"low", "high"}, .offsets = {0, 16}}};
    design.kernels = uses(16);
    design.workers = {
        {.tile = {0, 2}, .body = copy_loop("low", "hand", 16, 0, 3)},
        {.tile = {0, 3},
         .body = {
             Loop{.count = 3,
                  .body = {Acquire{"hand"}, Acquire{"high"}, Acquire{"out"},
                           Call{"sum_two", {ObjectArgument{"hand"}, ObjectArgument{"high"}, ObjectArgument{"out"}, 16}},
                           Release{"hand"}, Release{"high"}, Release{"out"}}}}}};
    design.sequence.arguments = {{"a", ints(96)}, {"b", ints(48)}};
    design.sequence.transfers = {{.fifo = "in", .argument = 0, .access = {{96, 1}}},
                                 {.fifo = "out", .argument = 1, .access = {{48, 1}}, .wait = true}};
    std::vector<int32_t> a = counting(96);
    std::vector<int32_t> b(48);
    const Result<Activity> activity = emulate(design, {&a, &b});
    ASSERT_TRUE(activity) << activity.error().message;
    for (int32_t i = 0; i < 48; ++i) EXPECT_EQ(b[static_cast<size_t>(i)], 2 * (i / 16 * 32 + i % 16) + 16);
    for (const StreamActivity& stream : activity->streams) EXPECT_NE(stream.fifo, "hand");
}

void walk(const Access& access, size_t dim, int64_t at, std::vector<int64_t>& order) {
    if (dim == access.size()) {
        order.push_back(at);
        return;
    }
    for (int64_t i = 0; i < access[dim].size; ++i) walk(access, dim + 1, at + i * access[dim].stride, order);
}

TEST(Access, WalksLikeNestedLoops) {
    std::mt19937 random(7);
    const auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random); };
    for (int round = 0; round < 200; ++round) {
        Access access;
        for (int64_t d = draw(1, 4); d > 0; --d) access.push_back({draw(1, 5), draw(0, 9)});
        if (round % 2 == 0) access.back().stride = 1;
        std::vector<int64_t> order;
        walk(access, 0, 0, order);
        const int64_t count = *std::max_element(order.begin(), order.end()) + 1;
        std::vector<int32_t> from = counting(static_cast<size_t>(count));
        std::vector<int32_t> to(order.size());
        const Runs runs(access, ints(count));
        const Runs straight({}, ints(static_cast<int64_t>(order.size())));
        ASSERT_EQ(runs.size_bytes(), straight.size_bytes());
        AccessCursor reader(runs, bytes_of(from).data());
        AccessCursor writer(straight, bytes_of(to).data());
        for (int64_t left = runs.size_bytes(); left > 0;) {
            const int64_t piece = std::min(left, 4 * draw(1, 7));
            AccessCursor::copy(reader, writer, piece);
            left -= piece;
        }
        for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(to[i], order[i]) << "round " << round;
    }
}

// A 8 x 16 matrix into 4 x 4 tiles on the way in, and its tiles' columns on the way out.
TEST(Emulator, FollowsThePatternsOfAllEnds) {
    const Access tiles{{2, 64}, {4, 4}, {4, 16}, {4, 1}};
    const Access turned{{16, 8}, {8, 1}};
    Design design = named("patterns");
    design.fifos = {
        {.name = "in", .producer = {0, 0}, .consumers = {{0, 1}}, .object = ints(128)},
        {.name = "tiles", .producer = {0, 1}, .consumers = {{0, 2}}, .object = ints(128), .to_stream = tiles},
        {.name = "out",
         .producer = {0, 2},
         .consumers = {{0, 0}},
         .object = ints(128),
         .to_stream = {{8, 1}, {16, 8}}}};
    design.links = {{.from = {"in"}, .to = {"tiles"}}};
    design.kernels = uses(128);
    design.workers = {{.tile = {0, 2}, .body = copy_loop("tiles", "out", 128, 0, 1)}};
    design.sequence.arguments = {{"a", ints(256)}, {"b", ints(128)}};
    design.sequence.transfers = {{.fifo = "in", .argument = 0, .offset = 3, .access = {{8, 24}, {16, 1}}},
                                 {.fifo = "out", .argument = 1, .access = turned, .wait = true}};
    std::vector<int32_t> a = counting(256);
    std::vector<int32_t> b(128);
    const Result<Activity> activity = emulate(design, {&a, &b});
    ASSERT_TRUE(activity) << activity.error().message;

    std::vector<int64_t> order;
    walk(tiles, 0, 0, order);
    std::vector<int64_t> out_order;
    walk({{8, 1}, {16, 8}}, 0, 0, out_order);
    for (size_t i = 0; i < 128; ++i) {
        const int64_t element = order[static_cast<size_t>(out_order[i])];
        EXPECT_EQ(b[i], 3 + element / 16 * 24 + element % 16);
    }
}

// A core that makes as many rounds of a loop for each object of `from` as the object's first number says.
Design counted_core(int64_t objects) {
    Design design = one_core(objects);
    design.workers[0].buffers = {{"count", ints(16)}};
    design.workers[0].body = {
        Acquire{"in"}, Call{"copy_add", {ObjectArgument{"in"}, BufferArgument{"count"}, 16, 0}}, Release{"in"},
        Loop{.count = 1,
             .body = {Acquire{"out"}, Call{"copy_add", {BufferArgument{"count"}, ObjectArgument{"out"}, 16, 0}},
                      Release{"out"}},
             .counter = "count"}};
    return design;
}

// The data say of how many results there are otherwise than the design: that only a run shows.
TEST(Emulator, NamesWhoWaitsForWhat) {
    std::vector<int32_t> a(80);
    std::vector<int32_t> b(80);
    for (size_t i = 0; i < 5; ++i) a[i * 16] = i == 4 ? 0 : 1;
    EXPECT_THAT(error_of(counted_core(5), {&a, &b}), HasSubstr("the sequence waits for transfer 1"));
    a[4 * 16] = 2;  // one more than is taken, for which there is room, and then three, for which there is none
    EXPECT_THAT(error_of(counted_core(5), {&a, &b}), HasSubstr("leaves 1 objects of FIFO 'out' in tile (0, 2)"));
    a[4 * 16] = 6;
    EXPECT_THAT(error_of(counted_core(5), {&a, &b}),
                AllOf(HasSubstr("'one_core' ends in the middle of a round"),
                      HasSubstr("worker on tile (0, 2) waits for space in FIFO 'out'")));
    Design too_early = one_core(9);  // nothing drains yet what this fill makes the core write
    too_early.sequence.transfers[0].wait = true;
    std::vector<int32_t> long_a(16 * 9);
    std::vector<int32_t> long_b(16 * 9);
    EXPECT_THAT(
        error_of(too_early, {&long_a, &long_b}),
        AllOf(HasSubstr("worker on tile (0, 2) waits for space in FIFO 'out'"),
              HasSubstr("transfer 0 waits for space in FIFO 'in'"), HasSubstr("the sequence waits for transfer 0")));
}

// What is written for the device is what runs: a schedule that waits for less than there is ends too early, one that
// leaves a token would make the next run do so.
TEST(Emulator, EndsWithTheLastStepOfTheHost) {
    Design design = one_core(4);
    design.sequence.transfers = {{.fifo = "in", .argument = 0, .access = {{64, 1}}},
                                 {.fifo = "out", .argument = 1, .access = {{32, 1}}},
                                 {.fifo = "out", .argument = 1, .offset = 32, .access = {{32, 1}}}};
    design.workers[0].body = copy_loop("in", "out", 16, 0, 1);
    std::vector<HostStep> steps = host_schedule(design, *find_array("npu1"));
    ASSERT_EQ(steps.size(), 5U);
    std::vector<int32_t> a(64);
    std::vector<int32_t> b(64);
    const auto run_with = [&](const std::vector<HostStep>& with) {
        const std::array<std::span<std::byte>, 2> arguments{bytes_of(a), bytes_of(b)};
        const Result<Activity> result = Emulator::make(design, test_kernel, with)->run(arguments);
        return result ? "no error" : result.error().message;
    };
    EXPECT_EQ(run_with(steps), "no error");
    steps.pop_back();
    EXPECT_THAT(run_with(steps), HasSubstr("the run ends before transfer 2 of FIFO 'out' is done"));
    std::swap(steps[1], steps[3]);  // the wait before what it waits for
    EXPECT_THAT(run_with(steps), HasSubstr("the sequence waits for transfer 1"));
    steps = host_schedule(design, *find_array("npu1"));
    steps[2].descriptor = steps[1].descriptor;
    EXPECT_THAT(run_with(steps), HasSubstr("takes descriptor"));
}

// How often a loop goes round is in the data: the design says 1, the first number of each object says otherwise.
TEST(Emulator, CountsALoopByItsBuffer) {
    const Design design = counted_core(4);
    std::vector<int32_t> a(64);
    for (size_t i = 0; i < 4; ++i) a[i * 16] = static_cast<int32_t>(i) % 2 * 2;  // 0, 2, 0, 2
    std::vector<int32_t> b(64);
    const Result<Activity> activity = emulate(design, {&a, &b});
    ASSERT_TRUE(activity) << activity.error().message;
    EXPECT_EQ(activity->tiles[0].calls, 8U);
    a[0] = -1;
    EXPECT_THAT(error_of(design, {&a, &b}), HasSubstr("is told to make -1 rounds"));
}

// Its message is that of check(): there is nothing in the emulator that a design could break.
TEST(Emulator, TakesWhatPassesTheCheck) {
    std::vector<int32_t> a(80);
    std::vector<int32_t> b(80);
    Design design = one_core(5);
    design.sequence.transfers[0].offset = 1;
    EXPECT_THAT(error_of(design, {&a, &b}), HasSubstr("walks to element 79, but there are 79"));
    std::vector<int32_t> small(79);
    EXPECT_THAT(error_of(one_core(5), {&a, &small}), HasSubstr("buffer 'b' has 316 bytes and needs 320"));
    const Result<Emulator> without =
        Emulator::make(one_core(5), [](std::string_view) -> const Kernel* { return nullptr; });
    EXPECT_THAT(without.error().message, HasSubstr("there is no kernel 'copy_add'"));
}

TEST(Emulator, NoticesAKernelThatWritesPastItsBuffer) {
    std::vector<int32_t> a(80);
    std::vector<int32_t> b(80);
    Design design = one_core(5);
    design.workers[0].body = copy_loop("in", "out", 17, 1, 5);
    EXPECT_THAT(error_of(design, {&a, &b}),
                HasSubstr("kernel 'copy_add' on tile (0, 2) writes past the ends of 'out'"));
    design = one_core(5);
    design.workers[0].buffers = {{"scratch", ints(8)}};
    design.kernels = uses(8);  // so it says
    design.workers[0].body = {Acquire{"in"}, Acquire{"out"},
                              Call{"copy_add", {ObjectArgument{"in"}, BufferArgument{"scratch"}, 16, 1}}, Release{"in"},
                              Release{"out"}};
    EXPECT_THAT(error_of(design, {&a, &b}), HasSubstr("'scratch'"));
}

}  // namespace
}  // namespace tandem::npu
