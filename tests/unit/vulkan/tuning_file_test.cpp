#include "vulkan/tuning_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;

DeviceInfo large_device() {
    DeviceInfo info;
    info.name = "Example GPU (TM) 9000";
    info.vendor = DeviceInfo::kNvidia;
    info.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    info.capabilities.subgroup = info.capabilities.min_subgroup = info.capabilities.max_subgroup = 32;
    info.capabilities.shared_bytes = 48 << 10;
    info.capabilities.max_workgroup = 1024;
    info.capabilities.cooperative_matrix = true;
    info.capabilities.narrow_matrix = true;
    return info;
}

std::string why_refused(const std::string& text) {
    const auto read = tuning_from_json(text, large_device());
    return read ? "taken" : read.error().message;
}

TEST(DefaultTuning, FollowsTheComputeUnits) {
    DeviceInfo device = large_device();
    EXPECT_EQ(default_tuning(device).gated.groups, 1056U) << "as measured, where the driver does not say how many";
    device.capabilities.compute_units = 66;
    EXPECT_EQ(default_tuning(device).gated.groups, 528U);
    device.vendor = DeviceInfo::kAmd;
    device.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    device.capabilities.compute_units = 0;
    EXPECT_EQ(compute_units(device), 12U);
    const Tuning small = default_tuning(device);
    device.capabilities.compute_units = 40;
    const Tuning large = default_tuning(device);
    EXPECT_EQ(large.gated.groups * 12, small.gated.groups * 40);
    EXPECT_EQ(large.matmul.back().groups * 12, small.matmul.back().groups * 40);
    EXPECT_EQ(small.gated.clamped, 1U);
    device.capabilities.cooperative_matrix = false;
    EXPECT_EQ(default_tuning(device).matmul.back().warp_cols, 32U)
        << "sums of larger warps would not stay in registers";
}

TEST(TuningFile, IsReadAsItWasWritten) {
    const DeviceInfo device = large_device();
    Tuning tuning = default_tuning(device);
    tuning.gemv.front().rows = 2;
    tuning.gemv.front().staged = 0;
    tuning.stream.front().warps = 8;
    tuning.chained_rows = 4;
    tuning.matmul.front().depth = 64;
    tuning.attention.tile_rows = 128;
    const std::string text = tuning_to_json(tuning, device);
    const Tuning read = tuning_from_json(text, device).value();
    EXPECT_EQ(tuning_to_json(read, device), text);
    EXPECT_EQ(read.gemv.front().rows, 2U);
    EXPECT_EQ(read.gemv.front().staged, 0U);
    EXPECT_EQ(read.stream.front().warps, 8U);
    EXPECT_EQ(read.matmul, tuning.matmul);
}

TEST(TuningFile, TakesTheDefaultsForWhatItLeavesOut) {
    const Tuning read = tuning_from_json(R"({"gated": {"unroll": 2}})", large_device()).value();
    EXPECT_EQ(read.gated.unroll, 2U);
    EXPECT_EQ(read.gated.lanes, default_tuning(large_device()).gated.lanes);
    EXPECT_EQ(read.matmul, default_tuning(large_device()).matmul);
}

TEST(TuningFile, RefusesWhatKernelsCannotTake) {
    EXPECT_THAT(why_refused("not JSON"), HasSubstr("no JSON object"));
    EXPECT_THAT(why_refused(R"({"gemv": 3})"), HasSubstr("'gemv' is no list"));
    EXPECT_THAT(why_refused(R"({"gemv": [{"lanes": 100}]})"), HasSubstr("gemv.lanes is 100"));
    EXPECT_THAT(why_refused(R"({"gemv": [{"lanes": -1}]})"), HasSubstr("gemv.lanes is -1"));
    EXPECT_THAT(why_refused(R"({"gemv": [{"lanes": 1e9}]})"), HasSubstr("gemv.lanes"));
    EXPECT_THAT(why_refused(R"({"gated": {"lines": 64}})"), HasSubstr("not known"));
    EXPECT_THAT(why_refused(R"({"gated": {"staged": 2}})"), HasSubstr("staged"));
    EXPECT_THAT(why_refused(R"({"gated": {"lanes": 32, "lanes_per_row": 32}})"), HasSubstr("multiple of 32"));
    EXPECT_THAT(why_refused(R"({"gemv": [{"max_outputs": 9}, {"max_outputs": 8}]})"), HasSubstr("ascending"));
    EXPECT_THAT(why_refused(R"({"stream": [{"max_rows": 8}, {"max_rows": 8, "max_outputs": 9}]})"),
                HasSubstr("ascending"));
    EXPECT_THAT(why_refused(R"({"stream": [{"max_rows": 8, "max_outputs": 9}, {"max_rows": 8}]})"), HasSubstr("taken"));
    EXPECT_THAT(why_refused(R"({"stream": [{"warps": 2, "row_warps": 4}]})"), HasSubstr("warps"));
    EXPECT_THAT(why_refused(R"({"attention": {"matrix_lanes": 40}})"),
                HasSubstr("attention.matrix_lanes is 40, expected a multiple of 32 from 0 to 256"));
    EXPECT_THAT(why_refused(R"({"attention": {"wide_lanes": 48}})"), HasSubstr("attention.wide_lanes is 48"));
    EXPECT_THAT(why_refused(R"({"matmul": []})"), HasSubstr("matmul"));
    EXPECT_THAT(why_refused(R"({"matmul": [{"max_rows": 8, "tile_rows": 24, "tile_cols": 64, "warp_rows": 16,
                                            "warp_cols": 32}]})"),
                HasSubstr("cannot be multiplied"));
    EXPECT_THAT(why_refused(R"({"matmul": [{"max_rows": 8, "tile_rows": 512, "tile_cols": 512, "warp_rows": 16,
                                            "warp_cols": 32}]})"),
                HasSubstr("shared memory"));
    EXPECT_THAT(why_refused(R"({"attention": {"tile_rows": 17}})"), HasSubstr("attention.tile_rows"));
    EXPECT_THAT(why_refused(R"({"chained_rows": -2})"), HasSubstr("chained_rows"));
}

TEST(TuningFile, IsFoundByTheNameOfTheDevice) {
    const DeviceInfo device = large_device();
    EXPECT_EQ(tuning_file_name(device), "example-gpu-tm-9000.json");
    const auto directory = std::filesystem::path(testing::TempDir()) / "tandem-tuning-file-test";
    std::filesystem::remove_all(directory);
    EXPECT_EQ(load_tuning(directory, device).gated.unroll, default_tuning(device).gated.unroll);
    Tuning tuning = default_tuning(device);
    tuning.gated.unroll = 8;
    ASSERT_TRUE(save_tuning(directory, tuning, device));
    EXPECT_EQ(load_tuning(directory, device).gated.unroll, 8U);
    std::ofstream(directory / tuning_file_name(device)) << "{";
    EXPECT_EQ(load_tuning(directory, device).gated.unroll, default_tuning(device).gated.unroll);
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tandem::vulkan
