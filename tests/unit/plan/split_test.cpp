#include "plan/split.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tandem::plan {
namespace {

SplitDevice device_of(std::string name, size_t layers, double seconds, uint64_t memory_bytes) {
    return {.name = std::move(name),
            .layers = std::vector<PartSeconds>(layers, {.decode = seconds}),
            .memory_bytes = memory_bytes};
}

PartBytes layers_of(size_t layers, uint64_t bytes) {
    return {.layers = std::vector<uint64_t>(layers, bytes)};
}

TEST(Split, GivesTheFasterDeviceMoreLayers) {
    const auto stages = split_layers(layers_of(12, 10), {device_of("a", 12, 1, 1000), device_of("b", 12, 3, 1000)},
                                     {.micro_batches = 100});
    ASSERT_TRUE(stages);
    ASSERT_EQ(stages->size(), 2U);
    EXPECT_EQ((*stages)[0].end_layer, 9);
    EXPECT_EQ((*stages)[1].first_layer, 9);
    EXPECT_EQ((*stages)[1].end_layer, 12);
    EXPECT_DOUBLE_EQ((*stages)[0].seconds.decode, 9);
    EXPECT_EQ((*stages)[1].bytes, 30U);
}

// One micro-batch is never in two places, so a slower device only costs; with none to spare it must help.
TEST(Split, LeavesADeviceOutThatMakesItSlower) {
    const std::vector<SplitDevice> devices = {device_of("slow", 8, 5, 1000), device_of("fast", 8, 1, 1000)};
    const auto alone = split_layers(layers_of(8, 10), devices, {.micro_batches = 1});
    ASSERT_TRUE(alone);
    ASSERT_EQ(alone->size(), 1U);
    EXPECT_EQ((*alone)[0].device, 1);
    const auto both = split_layers(layers_of(8, 10), devices, {.micro_batches = 1, .all_devices = true});
    ASSERT_TRUE(both);
    ASSERT_EQ(both->size(), 2U);
    EXPECT_EQ((*both)[0].end_layer, 1);
}

TEST(Split, KeepsWithinEachMemory) {
    const auto stages = split_layers(layers_of(10, 10), {device_of("small", 10, 1, 35), device_of("large", 10, 9, 90)},
                                     {.micro_batches = 1});
    ASSERT_TRUE(stages);
    ASSERT_EQ(stages->size(), 2U);
    EXPECT_EQ((*stages)[0].end_layer, 3);
}

// A tied embedding is there once on one device and twice on two.
TEST(Split, CountsATiedEmbeddingOnBothEnds) {
    const PartBytes bytes{.layers = {10, 10}, .first = 50, .last = 51, .shared = 50};
    const auto one = split_layers(bytes, {device_of("a", 2, 1, 71)}, {});
    ASSERT_TRUE(one);
    EXPECT_EQ((*one)[0].bytes, 71U);
    EXPECT_FALSE(split_layers(bytes, {device_of("a", 2, 1, 70)}, {}));
    EXPECT_TRUE(split_layers(bytes, {device_of("a", 2, 1, 60), device_of("b", 2, 1, 61)}, {}));
    EXPECT_FALSE(split_layers(bytes, {device_of("a", 2, 1, 60), device_of("b", 2, 1, 60)}, {}));
}

TEST(Split, TheWorkOfAStageAndTheHandOverCount) {
    std::vector<SplitDevice> devices = {device_of("a", 4, 1, 50), device_of("b", 4, 1, 50)};
    devices[0].work_bytes = 35;
    const auto stages = split_layers(layers_of(4, 10), devices, {.micro_batches = 8, .all_devices = true});
    ASSERT_TRUE(stages);
    EXPECT_EQ((*stages)[0].end_layer, 1);
    devices[0].work_bytes = 0;
    devices[0].hand_over = {.decode = 100};
    const auto alone = split_layers(layers_of(4, 10), devices, {.micro_batches = 8});
    ASSERT_TRUE(alone);
    EXPECT_EQ(alone->size(), 1U);
}

TEST(Split, SaysWhatDoesNotFit) {
    const auto stages = split_layers(layers_of(4, 1 << 20),
                                     {device_of("vulkan:0", 4, 1, 1 << 20), device_of("cpu", 4, 1, 2 << 20)}, {});
    ASSERT_FALSE(stages);
    EXPECT_EQ(
        stages.error().message,
        "4 layers of 4.00 MiB together do not fit into the devices (vulkan:0 1.00 MiB, cpu 2.00 MiB): use a smaller "
        "--context, --kv q8_0 or weights of fewer bits");
    const auto by_hand =
        split_at(layers_of(4, 1 << 20), {device_of("a", 4, 1, 4 << 20), device_of("b", 4, 1, 1 << 20)}, {2});
    ASSERT_FALSE(by_hand);
    EXPECT_NE(by_hand.error().message.find("layers 2 to 3 need 2.00 MiB on b, which has 1.00 MiB"), std::string::npos);
}

double best_by_trying(const PartBytes& bytes, const std::vector<SplitDevice>& devices, const SplitGoal& goal,
                      size_t device, int first, std::vector<double> stages) {
    const auto layers = static_cast<int>(bytes.layers.size());
    if (first == layers) return pipelined_seconds(stages, goal.micro_batches);
    double best = std::numeric_limits<double>::infinity();
    if (device == devices.size()) return best;
    best = best_by_trying(bytes, devices, goal, device + 1, first, stages);
    const SplitDevice& on = devices[device];
    uint64_t needs = on.work_bytes + (first == 0 ? bytes.first : 0);
    PartSeconds took = first == 0 ? on.first : PartSeconds{};
    for (int end = first + 1; end <= layers; ++end) {
        needs += bytes.layers[static_cast<size_t>(end) - 1];
        took.decode += on.layers[static_cast<size_t>(end) - 1].decode;
        took.prompt += on.layers[static_cast<size_t>(end) - 1].prompt;
        uint64_t with_end = needs;
        double seconds = goal.decode_steps * took.decode + took.prompt;
        if (end == layers) {
            with_end += bytes.last - (first == 0 ? bytes.shared : 0);
            seconds += goal.decode_steps * on.last.decode + on.last.prompt;
        } else {
            seconds += goal.decode_steps * on.hand_over.decode + on.hand_over.prompt;
        }
        if (with_end > on.memory_bytes) continue;
        std::vector<double> more = stages;
        more.push_back(seconds);
        best = std::min(best, best_by_trying(bytes, devices, goal, device + 1, end, more));
    }
    return best;
}

TEST(Split, IsTheBestOfAll) {
    std::mt19937 random(7);
    const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    int fitted = 0;
    for (int round = 0; round < 200; ++round) {
        const auto layers = static_cast<size_t>(2 + any(6));
        PartBytes bytes{
            .layers = {}, .first = static_cast<uint64_t>(any(20)), .last = static_cast<uint64_t>(20 + any(20))};
        bytes.shared = bytes.first;
        for (size_t i = 0; i < layers; ++i) bytes.layers.push_back(static_cast<uint64_t>(1 + any(9)));
        std::vector<SplitDevice> devices(static_cast<size_t>(1 + any(3)));
        for (SplitDevice& device : devices) {
            for (size_t i = 0; i < layers; ++i)
                device.layers.push_back({static_cast<double>(1 + any(9)), static_cast<double>(any(99))});
            device.first = {.prompt = static_cast<double>(any(9))};
            device.last = {.decode = static_cast<double>(any(9))};
            device.hand_over = {.decode = static_cast<double>(any(2))};
            device.memory_bytes = static_cast<uint64_t>(30 + any(60));
            device.work_bytes = static_cast<uint64_t>(any(9));
        }
        const SplitGoal goal{.decode_steps = 10, .micro_batches = 1 + any(7)};
        const double best = best_by_trying(bytes, devices, goal, 0, 0, {});
        const auto stages = split_layers(bytes, devices, goal);
        ASSERT_EQ(static_cast<bool>(stages), best < std::numeric_limits<double>::infinity());
        if (!stages) continue;
        ++fitted;
        std::vector<double> seconds;
        int next = 0;
        for (const SplitStage& stage : *stages) {
            EXPECT_EQ(stage.first_layer, next);
            EXPECT_LE(stage.bytes, devices[static_cast<size_t>(stage.device)].memory_bytes);
            next = stage.end_layer;
            seconds.push_back(goal.decode_steps * stage.seconds.decode + stage.seconds.prompt);
        }
        EXPECT_EQ(next, static_cast<int>(layers));
        EXPECT_NEAR(pipelined_seconds(seconds, goal.micro_batches), best, 1e-6);
    }
    EXPECT_GT(fitted, 50);
}

TEST(Split, ReadsCutsByHand) {
    EXPECT_EQ(parse_cuts("20,42", 3, 62).value(), (std::vector<int>{20, 42}));
    EXPECT_EQ(parse_cuts("5", 2, 6).value(), std::vector<int>{5});
    for (const char* wrong : {"", "x", "0", "6", "7", "3,3", "3,2", "2,4", "2,", "-1", "2 ", "99999999999999"})
        EXPECT_FALSE(parse_cuts(wrong, 2, 6)) << wrong;
    EXPECT_EQ(
        parse_cuts("7", 2, 6).error().message,
        "--split 7: 7 leaves a device without layers; 2 devices and 6 layers need 1 ascending number from 1 to 5, "
        "such as 3");
}

}  // namespace
}  // namespace tandem::plan
