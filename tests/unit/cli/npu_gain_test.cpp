#include "cli/npu_gain.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tandem::cli {
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

TEST(NpuGain, IsMoreThanChance) {
    EXPECT_FALSE((NpuGain{.alone_s = 1, .together_s = 0.98}).helps());
    EXPECT_FALSE((NpuGain{.alone_s = 1, .together_s = 0}).helps()) << "what was not measured";
}

}  // namespace
}  // namespace tandem::cli
