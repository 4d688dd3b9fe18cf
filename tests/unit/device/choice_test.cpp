#include "device/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace tandem::device {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

Description gpu(Kind kind, std::string name, uint64_t own_gib, uint64_t host_gib) {
    return {.kind = kind,
            .name = std::move(name),
            .hardware = "Radeon",
            .details = {},
            .pools = {{"device", own_gib * kGibibyte, own_gib * kGibibyte},
                      {"host", host_gib * kGibibyte, host_gib * kGibibyte}},
            .unusable = {}};
}

std::string chosen(const Candidates& candidates, uint64_t weight_bytes) {
    const DeviceChoice choice = choose_device(candidates, weight_bytes);
    return choice.gpu == nullptr ? "cpu" : choice.gpu->name;
}

TEST(DeviceChoice, IsTheGpuThatHoldsTheModel) {
    const Candidates both{.gpus = {gpu(Kind::integrated_gpu, "vulkan:0", 4, 20), gpu(Kind::gpu, "vulkan:1", 8, 30)},
                          .cards = {}};
    EXPECT_EQ(chosen(both, 5 * kGibibyte), "vulkan:1")
        << "with memory of its own, before one that shares the machine's";
    EXPECT_EQ(chosen(both, 15 * kGibibyte), "vulkan:0") << "the memory of the host is slow over a bus";
    EXPECT_EQ(chosen(both, 40 * kGibibyte), "cpu");
    EXPECT_EQ(choose_device(both, 5 * kGibibyte).why, "");
}

TEST(DeviceChoice, IsTheRoomiestOfItsKind) {
    const Candidates two{.gpus = {gpu(Kind::gpu, "vulkan:0", 8, 0), gpu(Kind::gpu, "vulkan:1", 16, 0)}, .cards = {}};
    EXPECT_EQ(chosen(two, kGibibyte), "vulkan:1");
}

TEST(DeviceChoice, SaysWhatAModelNeedsThatNoGpuHolds) {
    const Candidates one{.gpus = {gpu(Kind::gpu, "vulkan:0", 8, 30)}, .cards = {}};
    EXPECT_THAT(choose_device(one, 15 * kGibibyte).why,
                AllOf(HasSubstr("16.8 GiB"), HasSubstr("Radeon has 8.00 GiB free"), HasSubstr("--device vulkan:0")));
}

TEST(DeviceChoice, IsNeverASoftwareDevice) {
    const Candidates software{.gpus = {gpu(Kind::software_gpu, "vulkan:0", 64, 0)}, .cards = {}};
    EXPECT_EQ(chosen(software, kGibibyte), "cpu");
    EXPECT_EQ(choose_device(software, kGibibyte).why, "") << "the machine has no GPU, so nothing is amiss";
}

TEST(DeviceChoice, NamesWhatAGpuLacks) {
    Candidates old{.gpus = {gpu(Kind::gpu, "vulkan:0", 8, 0)}, .cards = {}};
    old.gpus[0].unusable = "lacks the feature shaderFloat16";
    EXPECT_THAT(choose_device(old, kGibibyte).why, HasSubstr("Radeon lacks the feature shaderFloat16"));
}

class Cards : public testing::Test {
  protected:
    void SetUp() override {
        root_ =
            std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
        std::filesystem::remove_all(root_);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void add(const std::string& address, const char* kind, const char* vendor, const char* node = nullptr) {
        const std::filesystem::path card = root_ / "sys/bus/pci/devices" / address;
        std::filesystem::create_directories(card / "drm");
        std::ofstream(card / "class") << kind << "\n";
        std::ofstream(card / "vendor") << vendor << "\n";
        if (node != nullptr) std::filesystem::create_directories(card / "drm" / node);
    }

    std::vector<GraphicsCard> find(bool may_open = true) const {
        return find_cards(root_, [may_open](const std::filesystem::path&) { return may_open; });
    }

    std::filesystem::path root_;
};

TEST_F(Cards, WithoutADriverHaveARemedy) {
    add("0000:c4:00.0", "0x030000", "0x1002", "renderD128");
    const Candidates candidates{.gpus = {gpu(Kind::software_gpu, "vulkan:0", 64, 0)}, .cards = find()};
    EXPECT_THAT(choose_device(candidates, kGibibyte).why,
                AllOf(HasSubstr("no Vulkan driver was found for the AMD GPU"), HasSubstr("mesa-vulkan-drivers")));
}

TEST_F(Cards, ThatMayNotBeOpenedNameTheGroup) {
    add("0000:c4:00.0", "0x030000", "0x1002", "renderD128");
    EXPECT_THAT(choose_device({.gpus = {}, .cards = find(false)}, kGibibyte).why,
                AllOf(HasSubstr("renderD128"), HasSubstr("group")));
}

TEST_F(Cards, OfMachinesWithoutAGpuAreNone) {
    add("0000:00:1f.0", "0x060100", "0x8086");
    add("0000:00:02.0", "0x030000", "0x1234");  // the screen of a virtual machine
    EXPECT_TRUE(find().empty());
    EXPECT_EQ(choose_device({.gpus = {}, .cards = find()}, kGibibyte).why, "");
}

}  // namespace
}  // namespace tandem::device
