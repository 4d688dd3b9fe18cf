#include "cli/machine_profile.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tandem::cli {
namespace {

class Profile : public testing::Test {
  protected:
    void SetUp() override { std::filesystem::remove_all(file_.parent_path()); }
    void TearDown() override { std::filesystem::remove_all(file_.parent_path()); }

    static DeviceProfile profile(const std::string& device) {
        return {.device = device,
                .hardware = "a chip",
                .details = "driver 1",
                .speeds = {.rates = {.read_bytes_per_s = 3e10, .matrix_flops_per_s = 1e12, .cache_bytes = 3e7},
                           .dispatch_s = 2e-6,
                           .attention_flops_per_s = 4e9,
                           .attention_row_flops_per_s = 5e9,
                           .activation_bytes_per_s = 6e9,
                           .products = {{.type = DType::q4_0, .points = {{1, 1e-11}, {8, 2e-11}}}}},
                .upload_bytes_per_s = 7e9};
    }
    static device::Description description(const std::string& device, const std::string& details) {
        return {.name = device, .hardware = "a chip", .details = details};
    }

    const std::filesystem::path file_ = std::filesystem::path(testing::TempDir()) / "machine_profile" / "machine.json";
};

TEST_F(Profile, IsKeptForEachDevice) {
    EXPECT_FALSE(kept_profile(file_, description("cpu", "driver 1")));
    ASSERT_TRUE(keep_profile(file_, profile("cpu")));
    ASSERT_TRUE(keep_profile(file_, profile("vulkan:0")));
    ASSERT_TRUE(keep_profile(file_, profile("cpu")));
    const auto kept = kept_profile(file_, description("cpu", "driver 1"));
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->speeds.rates.read_bytes_per_s, 3e10);
    EXPECT_EQ(kept->speeds.dispatch_s, 2e-6);
    EXPECT_EQ(kept->speeds.attention_row_flops_per_s, 5e9);
    EXPECT_EQ(kept->upload_bytes_per_s, 7e9);
    ASSERT_EQ(kept->speeds.products.size(), 1U);
    EXPECT_EQ(kept->speeds.products[0].type, DType::q4_0);
    ASSERT_EQ(kept->speeds.products[0].points.size(), 2U);
    EXPECT_EQ(kept->speeds.products[0].points[1].rows, 8);
    EXPECT_TRUE(kept_profile(file_, description("vulkan:0", "driver 1")));
}

TEST_F(Profile, IsForgottenWithAnotherDriver) {
    ASSERT_TRUE(keep_profile(file_, profile("vulkan:0")));
    EXPECT_FALSE(kept_profile(file_, description("vulkan:0", "driver 2")));
}

TEST_F(Profile, ThatIsDamagedCountsAsNone) {
    for (const char* text : {"", "{}", "[3]", "[{}]", "no JSON"}) {
        std::filesystem::create_directories(file_.parent_path());
        ASSERT_TRUE(write_file(file_, text));
        EXPECT_FALSE(kept_profile(file_, description("cpu", "driver 1"))) << text;
    }
    ASSERT_TRUE(keep_profile(file_, profile("cpu"))) << "over what was there";
    const std::string good = *read_text_file(file_);
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        if (at != std::string::npos) text.replace(at, from.size(), to);
        EXPECT_TRUE(write_file(file_, text));
        return kept_profile(file_, description("cpu", "driver 1")).has_value();
    };
    EXPECT_TRUE(with("a chip", "a chip"));
    EXPECT_FALSE(with("\"dispatch_s\"", "\"dispatched\""));
    EXPECT_FALSE(with("q4_0", "q4_9"));
    EXPECT_FALSE(with("1e-11", "-1")) << "no time is negative";
    EXPECT_FALSE(with("\"version\": \"", "\"version\": \"0.0.")) << "kernels of another version";
}

TEST_F(Profile, WithoutAFolderIsNotKept) {
    EXPECT_TRUE(keep_profile({}, profile("cpu")));
    EXPECT_FALSE(kept_profile({}, description("cpu", "driver 1")));
}

}  // namespace
}  // namespace tandem::cli
