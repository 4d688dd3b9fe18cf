#include "cli/bench_subject.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// 14.5 GiB that a device of 2 GiB is not to be brought.
TEST(BenchSubject, IsNotMadeForADeviceWithoutRoom) {
    const device::Description small{.name = "vulkan:0",
                                    .hardware = "a GPU",
                                    .details = "",
                                    .pools = {{"device", 8 * kGiB, kGiB}, {"host", kGiB, kGiB}}};
    EXPECT_TRUE(check_room("gemma3-1b", 2 * kGiB, small));
    const Status refused = check_room("gemma3-27b", 29 * kGiB / 2, small);
    ASSERT_FALSE(refused);
    EXPECT_EQ(
        refused.error().message,
        "gemma3-27b: its weights need 14.5 GiB, vulkan:0 (a GPU) has 2.00 GiB available: choose a smaller shape or "
        "another device");
    const auto opened = open_subject({.model = "gemma3-27b", .type = ""}, small, 1);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, testing::HasSubstr("vulkan:0 (a GPU) has 2.00 GiB available"));
}

TEST(BenchSubject, MayBeAnEmbeddedModel) {
    const auto opened =
        open_subject({.model = "tales", .type = ""}, {.name = "cpu", .hardware = "", .details = "", .pools = {}}, 1);
    ASSERT_TRUE(opened) << opened.error().message;
    EXPECT_EQ(opened->checkpoint->name(), "tales");
}

}  // namespace
}  // namespace tandem::cli
