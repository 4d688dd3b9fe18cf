#include "plan/pipeline.h"

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <map>
#include <mutex>

#include "plan/micro_batch.h"

namespace tandem::plan {
namespace {

constexpr std::array<int, 3> kMainNpuMain = {0, 1, 0};
constexpr int kSlots = 2;

PipelineOrder order_of(int micro_batches) {
    return PipelineOrder({.micro_batches = micro_batches, .device_of_segment = kMainNpuMain, .slots = kSlots});
}

TEST(Pipeline, RunsEveryTaskOnceAndInOrder) {
    PipelineOrder order = order_of(4);
    std::mutex mutex;
    std::map<int, int> reached;  // per micro-batch
    int tasks = 0;
    const auto failure = run_pipeline(order, [&](Task task) -> Status {
        const std::lock_guard lock(mutex);
        EXPECT_EQ(reached[task.micro_batch], task.segment);
        if (task.micro_batch > 0) {
            EXPECT_GT(reached[task.micro_batch - 1], task.segment);
        }
        if (task.micro_batch >= kSlots) {
            EXPECT_EQ(reached[task.micro_batch - kSlots], 3);
        }
        ++reached[task.micro_batch];
        ++tasks;
        return Ok{};
    });
    EXPECT_FALSE(failure);
    EXPECT_EQ(tasks, 12);
}

// The NPU's part of micro-batch 0 ends only when the main device is in micro-batch 1: one after another would hang.
TEST(Pipeline, BothDevicesAreBusyAtOnce) {
    PipelineOrder order = order_of(2);
    std::mutex mutex;
    std::condition_variable changed;
    bool main_is_ahead = false;
    const auto failure = run_pipeline(order, [&](Task task) -> Status {
        std::unique_lock lock(mutex);
        if (task.micro_batch == 1 && task.segment == 0) {
            main_is_ahead = true;
            changed.notify_all();
        }
        if (task.micro_batch == 0 && task.segment == 1) changed.wait(lock, [&] { return main_is_ahead; });
        return Ok{};
    });
    EXPECT_FALSE(failure);
    EXPECT_TRUE(main_is_ahead);
}

TEST(Pipeline, NothingBeginsAfterAFailureAndItsDeviceIsNamed) {
    PipelineOrder order = order_of(3);
    std::mutex mutex;
    int last_segments = 0;
    const auto failure = run_pipeline(order, [&](Task task) -> Status {
        const std::lock_guard lock(mutex);
        if (task.segment == 1) return fail("the device vanished");
        last_segments += task.segment == 2 ? 1 : 0;
        return Ok{};
    });
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->device, 1);
    EXPECT_EQ(failure->error.message, "the device vanished");
    EXPECT_EQ(last_segments, 0);
}

// Main 2, NPU 3, main 0: after the first, the NPU is always busy.
TEST(Pipeline, SimulatedTimeIsThatOfTheSlowerDeviceAndTheFilling) {
    PipelineOrder order = order_of(4);
    const PipelineTime time = simulate_pipeline(order, [](Task task) {
        return task.segment == 0 ? 2.0 : task.segment == 1 ? 3.0 : 0.0;
    });
    EXPECT_DOUBLE_EQ(time.seconds, 2.0 + 4 * 3.0);
    EXPECT_DOUBLE_EQ(time.busy[0], 8.0);
    EXPECT_DOUBLE_EQ(time.busy[1], 12.0);
}

// Three devices, as many groups of sequences, each four rounds: every device is busy but for the filling and the end.
TEST(Pipeline, RoundsFollowEachOtherWithoutABreak) {
    constexpr std::array<int, 3> kInARow = {0, 1, 2};
    PipelineOrder order({.micro_batches = 3, .device_of_segment = kInARow, .slots = 3, .rounds = 4});
    const PipelineTime time = simulate_pipeline(order, [](Task) { return 1.0; });
    EXPECT_DOUBLE_EQ(time.seconds, 3 * 4 + 2);
    for (const double busy : time.busy) EXPECT_DOUBLE_EQ(busy, 12.0);
}

TEST(Pipeline, ARoundBeginsWhenTheOneBeforeHasEnded) {
    constexpr std::array<int, 3> kInARow = {0, 1, 2};
    for (const int micro_batches : {1, 2, 3, 5}) {
        PipelineOrder order({.micro_batches = micro_batches, .device_of_segment = kInARow, .slots = 3, .rounds = 3});
        std::mutex mutex;
        std::map<int, int> reached;  // per micro-batch
        const auto failure = run_pipeline(order, [&](Task task) -> Status {
            const std::lock_guard lock(mutex);
            EXPECT_EQ(reached[task.micro_batch], task.round * 3 + task.segment);
            ++reached[task.micro_batch];
            return Ok{};
        });
        EXPECT_FALSE(failure);
        for (int m = 0; m < micro_batches; ++m) EXPECT_EQ(reached[m], 9);
    }
}

TEST(Pipeline, WithOneMicroBatchAFailureNamesItsDevice) {
    PipelineOrder order = order_of(1);
    const auto failure = run_pipeline(order, [&](Task task) -> Status {
        if (task.segment == 1) return fail("the device vanished");
        return Ok{};
    });
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->device, 1);
}

TEST(MicroBatch, RowsSequencesAndOutputsAreCutAlike) {
    device::Batch batch;
    batch.tokens = {10, 11, 12, 20, 21};
    batch.positions = {5, 6, 7, 0, 1};
    batch.sequences = {{.first_row = 0, .rows = 3, .past = 5, .blocks = {}},
                       {.first_row = 3, .rows = 2, .past = 0, .blocks = {}}};
    batch.output_rows = {4, 2};
    batch.sampling.resize(2);
    batch.sampling[0].draw = 40;
    batch.sampling[1].draw = 20;
    const std::vector<MicroBatch> parts = split(batch, 2);
    ASSERT_EQ(parts.size(), 3U);
    EXPECT_EQ(parts[1].batch.tokens, (std::vector<int32_t>{12, 20}));
    ASSERT_EQ(parts[1].batch.sequences.size(), 2U);
    EXPECT_EQ(parts[1].batch.sequences[0].past, 7);
    EXPECT_EQ(parts[1].batch.sequences[1].first_row, 1);
    EXPECT_EQ(parts[1].batch.sequences[1].rows, 1);
    EXPECT_EQ(parts[1].outputs, (std::vector<size_t>{1}));
    EXPECT_EQ(parts[1].batch.output_rows, (std::vector<int32_t>{0}));
    EXPECT_EQ(parts[1].batch.sampling[0].draw, 20);
    EXPECT_EQ(parts[2].outputs, (std::vector<size_t>{0}));
}

}  // namespace
}  // namespace tandem::plan
