#include "npu/designs/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "npu/array.h"
#include "npu/check.h"
#include "npu/designs/attention.h"
#include "npu/designs/gemm.h"
#include "npu/emulator.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

TEST(Library, EveryExampleIsWithinTheLimitsOfBothArrays) {
    for (const DesignFamily& family : design_families()) {
        for (const std::string& name : family.examples) {
            for (const char* array : {"npu1", "npu2"}) {
                const Result<Design> design = make_design(name, array);
                ASSERT_TRUE(design) << design.error().message;
                const Status status = check(*design);
                EXPECT_TRUE(status) << status.error().message;
            }
        }
    }
}

// A descriptor for each part of each object, as the vendor's compiler makes them.
TEST(Library, MemTilesNeedADescriptorForEachPart) {
    const auto most_descriptors = [](const Design& design) {
        int most = 0;
        for (const auto& [tile, use] : tile_use(design, *find_array("npu1")))
            if (tile.row == 1) most = std::max(most, use.descriptors);
        return most;
    };
    EXPECT_EQ(most_descriptors(*gemm_i8(*gemm_layout({.m = 64, .k = 64, .n = 64}))), 24);
    const auto attention = attention_layout({.tokens = 64, .heads = 8, .kv_heads = 4, .head_dim = 128, .keys = 64});
    EXPECT_EQ(most_descriptors(*attention_i8(*attention)), 36);
}

TEST(Library, RefusesNamesThatNoFamilyHas) {
    for (const char* name : {"", "gemm_i8_", "gemm_i8_8x8", "gemm_i8_8x8x8x8", "gemm_i8_8x0x8", "gemm_i8_8x-8x8",
                             "gemm_i8_8x8x99999999999999999999", "gemm_i8_8x8x8 ", "gemm"})
        EXPECT_THAT(make_design(name, "npu1").error().message, testing::HasSubstr("there is no design")) << name;
    EXPECT_FALSE(make_design("gemm_i8_8x8x8", "npu9"));
    EXPECT_THAT(make_trial("gemm_i8_1048576x8x1048576", "npu1", 1).error().message, testing::HasSubstr("smaller"));
}

TEST(Library, ATrialFindsAWrongResult) {
    Trial trial = *make_trial("gemm_i8_24x40x50", "npu1", 7);
    const std::vector<std::span<std::byte>> arguments(trial.arguments.begin(), trial.arguments.end());
    EXPECT_FALSE(trial.compare(trial.arguments));  // nothing has run
    Emulator emulator = *Emulator::make(trial.design);
    ASSERT_TRUE(emulator.run(arguments));
    EXPECT_EQ(*trial.compare(trial.arguments), 24 * 50);
    float first = 0;
    std::memcpy(&first, trial.arguments[2].data(), sizeof(first));
    first *= 1.000001F;
    std::memcpy(trial.arguments[2].data(), &first, sizeof(first));
    EXPECT_THAT(trial.compare(trial.arguments).error().message, testing::HasSubstr("result (0, 0) is"));
}

TEST(Library, AttentionAgreesWithAPlainComputation) {
    Trial trial = *make_trial("attention_i8_20x4x2x64x40", "npu1", 3);
    const std::vector<std::span<std::byte>> arguments(trial.arguments.begin(), trial.arguments.end());
    EXPECT_FALSE(trial.compare(trial.arguments));
    Emulator emulator = *Emulator::make(trial.design);
    ASSERT_TRUE(emulator.run(arguments));
    const Result<int64_t> compared = trial.compare(trial.arguments);
    ASSERT_TRUE(compared) << compared.error().message;
    EXPECT_EQ(*compared, 20 * 4 * 64);
    EXPECT_FALSE(make_trial("attention_i8_20x4x2x64x10", "npu1", 3));
}

// Nothing but the smallest example of each: the others are for the check and for MLIR.
TEST(Library, EveryFamilyComputesRightAndItsTrialNoticesWhatIsMissing) {
    for (const DesignFamily& family : design_families()) {
        const std::string& name = family.examples.front();
        for (const char* array : {"npu1", "npu2"}) {
            Result<Trial> trial = make_trial(name, array, 5);
            ASSERT_TRUE(trial) << trial.error().message;
            EXPECT_FALSE(trial->compare(trial->arguments)) << name << ": nothing has run";
            const std::vector<std::span<std::byte>> arguments(trial->arguments.begin(), trial->arguments.end());
            const Result<Activity> activity = Emulator::make(trial->design)->run(arguments);
            ASSERT_TRUE(activity) << activity.error().message;
            const Result<int64_t> compared = trial->compare(trial->arguments);
            ASSERT_TRUE(compared) << name << ": " << compared.error().message;
            EXPECT_GT(*compared, 1000) << name;
        }
    }
}

TEST(Library, SaysWhatANameOfAFamilyLooksLike) {
    EXPECT_THAT(make_design("gemm_i8_8x8", "npu1").error().message,
                testing::HasSubstr("gemm_i8_MxKxN is one such as gemm_i8_64x256x256"));
}

}  // namespace
}  // namespace tandem::npu
