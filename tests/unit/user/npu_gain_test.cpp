#include "user/npu_gain.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tandem::user {
namespace {

TEST(NpuGain, IsKeptForEachDevice) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "npu_gain" / "npu.json";
    std::filesystem::remove_all(file.parent_path());
    EXPECT_FALSE(kept_npu_gain(file, "Radeon 780M"));
    ASSERT_TRUE(keep_npu_gain(file, "Radeon 780M", {.alone_s = 2, .together_s = 1.5}));
    ASSERT_TRUE(keep_npu_gain(file, "AMD Ryzen", {.alone_s = 4, .together_s = 5}));
    EXPECT_TRUE(kept_npu_gain(file, "Radeon 780M")->helps());
    EXPECT_FALSE(kept_npu_gain(file, "AMD Ryzen")->helps());
    ASSERT_TRUE(write_file(file, "{\"Radeon 780M\": {\"prompt_s\": \"much\"}"));
    EXPECT_FALSE(kept_npu_gain(file, "Radeon 780M")) << "a file that is no JSON counts as none";
    std::filesystem::remove_all(file.parent_path());
}

TEST(NpuGain, StandsBesideTheSelftestAndTheTimesOfSteps) {
    const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "npu_times" / "npu.json";
    std::filesystem::remove_all(file.parent_path());
    EXPECT_FALSE(kept_npu_selftest(file, "npu1"));
    EXPECT_TRUE(kept_npu_times(file, "Radeon 780M").empty());
    ASSERT_TRUE(keep_npu_selftest(file, "npu1"));
    ASSERT_TRUE(keep_npu_times(file, "Radeon 780M", {{2048, {.alone_s = 9.7, .together_s = 7.5}}}));
    EXPECT_FALSE(kept_npu_gain(file, "Radeon 780M")) << "no prompt was timed";
    ASSERT_TRUE(keep_npu_gain(file, "Radeon 780M", {.alone_s = 2, .together_s = 1.5}));
    EXPECT_TRUE(kept_npu_selftest(file, "npu1"));
    EXPECT_FALSE(kept_npu_selftest(file, "Radeon 780M"));
    EXPECT_EQ(kept_npu_times(file, "Radeon 780M").at(2048).together_s, 7.5);
    EXPECT_TRUE(kept_npu_gain(file, "Radeon 780M")->helps());
    ASSERT_TRUE(write_file(file, R"({"npu1": {"selftest_passed": "yes", "steps": [{"rows": "many"}, 3]}})"));
    EXPECT_FALSE(kept_npu_selftest(file, "npu1")) << "what is no answer is none";
    EXPECT_TRUE(kept_npu_times(file, "npu1").empty());
    std::filesystem::remove_all(file.parent_path());
}

TEST(NpuGain, IsMoreThanChance) {
    EXPECT_FALSE((NpuGain{.alone_s = 1, .together_s = 0.98}).helps());
    EXPECT_FALSE((NpuGain{.alone_s = 1, .together_s = 0}).helps()) << "what was not measured";
}

}  // namespace
}  // namespace tandem::user
