#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "npu/xrt/discovery.h"

namespace tandem::npu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The file tree of a machine with an NPU that can be used; a test takes away from it.
class FakeMachine : public testing::Test {
  protected:
    FakeMachine() {
        fs::remove_all(root_);
        put("sys/bus/pci/devices/0000:00:01.0/vendor", "0x1022");  // a bridge of the same vendor
        put("sys/bus/pci/devices/0000:00:01.0/device", "0x14ed");
        add_npu("0000:c5:00.1", "0x1502", "0x00", "accel1");
        fs::create_directories(root_ / "sys/devices/other");
        fs::create_directories(root_ / "sys/class/accel/accel0");
        fs::create_directory_symlink(root_ / "sys/devices/other", root_ / "sys/class/accel/accel0/device");
        put("dev/accel/accel0", "");  // somebody else's
        put("sys/module/amdxdna/version", "");
        put("proc/sys/kernel/osrelease", "6.14.0-29-generic");
        put("lib/firmware/amdnpu/1502_00/npu.sbin.zst", "");
        put("opt/xilinx/xrt/lib/libxrt_coreutil.so.2.19.0", "");
        put("opt/xilinx/xrt/lib/libxrt_coreutil.so.2", "");
        put("opt/xilinx/xrt/lib/libxrt_driver_xdna.so.2", "");
        put("usr/lib/x86_64-linux-gnu/libxrt_coreutil.so.2.13.0", "");
    }
    void TearDown() override { fs::remove_all(root_); }

    void put(const std::string& path, const std::string& line) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << line << "\n";
    }

    void add_npu(const std::string& address, const std::string& device, const std::string& revision,
                 const std::string& node) {
        const std::string at = "sys/bus/pci/devices/" + address;
        put(at + "/vendor", "0x1022");
        put(at + "/device", device);
        put(at + "/revision", revision);
        fs::create_directories(root_ / "sys/class/accel" / node);
        fs::create_directory_symlink(root_ / at, root_ / "sys/class/accel" / node / "device");
        put("dev/accel/" + node, "");
    }

    void take_away(const std::string& path) { fs::remove_all(root_ / path); }

    Discovery found() const { return discover(system_); }

    // The one obstacle, with its remedy.
    std::string obstacle() const {
        const Discovery discovery = found();
        if (discovery.obstacles.size() != 1) return fmt::format("{} obstacles", discovery.obstacles.size());
        return discovery.usable().error().message;
    }

    fs::path root_ = fs::path(testing::TempDir()) / fmt::format("tandem_fake_machine_{}", getpid());
    System system_{.root = root_, .memlock_bytes = uint64_t{1} << 30, .may_open = [](const fs::path&) { return true; }};
};

using NpuDiscovery = FakeMachine;

TEST_F(NpuDiscovery, FindsTheDeviceItsArrayAndItsNode) {
    const Discovery discovery = found();
    EXPECT_TRUE(discovery.usable()) << discovery.usable().error().message;
    ASSERT_TRUE(discovery.device);
    EXPECT_EQ(discovery.device->array, "npu1");
    EXPECT_EQ(discovery.device->pci, "0000:c5:00.1");
    EXPECT_EQ(discovery.device->node, "/dev/accel/accel1") << "not that of the other accelerator";
    EXPECT_EQ(discovery.device->hardware, "AMD XDNA NPU 1022:1502 rev 00");
    EXPECT_EQ(discovery.xrt, "2.19.0") << "the newest of those that are installed";
}

TEST_F(NpuDiscovery, KnowsTheSecondGenerationByItsNumber) {
    take_away("sys/bus/pci/devices/0000:c5:00.1");
    take_away("sys/class/accel/accel1");
    add_npu("0000:c6:00.1", "0x17f0", "0x11", "accel2");
    put("usr/lib/firmware/amdnpu/17f0_11/npu.sbin", "");
    const Discovery discovery = found();
    EXPECT_TRUE(discovery.usable()) << discovery.usable().error().message;
    EXPECT_EQ(discovery.device->array, "npu2");
}

TEST_F(NpuDiscovery, SaysThatThereIsNone) {
    take_away("sys/bus/pci/devices/0000:c5:00.1");
    EXPECT_THAT(obstacle(), HasSubstr("no AMD XDNA NPU (PCI 1022:1502 or 1022:17f0)"));
    EXPECT_FALSE(found().device);
    take_away("sys");
    EXPECT_THAT(obstacle(), HasSubstr("no AMD XDNA NPU"));
}

TEST_F(NpuDiscovery, SaysWhatIsWrongWithTheDriver) {
    take_away("sys/module/amdxdna");
    EXPECT_THAT(obstacle(), HasSubstr("amdxdna is not loaded: run modprobe amdxdna"));
    put("proc/sys/kernel/osrelease", "6.1.0-40-amd64");
    EXPECT_THAT(obstacle(), HasSubstr("Linux 6.1.0-40-amd64 does not have the driver amdxdna: use Linux 6.14"));
}

TEST_F(NpuDiscovery, SaysWhichFirmwareIsMissing) {
    take_away("lib/firmware/amdnpu/1502_00/npu.sbin.zst");
    EXPECT_THAT(obstacle(), HasSubstr("amdnpu/1502_00/npu.sbin (or npu_7.sbin) is missing: install"));
    for (const char* name : {"npu_7.sbin.xz", "npu.dev.sbin"}) {  // what the driver asks for today
        put(fmt::format("lib/firmware/amdnpu/1502_00/{}", name), "");
        EXPECT_EQ(obstacle(), "0 obstacles") << name;
        take_away(fmt::format("lib/firmware/amdnpu/1502_00/{}", name));
    }
}

TEST_F(NpuDiscovery, SaysWhyTheNodeCannotBeOpened) {
    system_.may_open = [](const fs::path& node) { return node.filename() != "accel1"; };
    EXPECT_THAT(obstacle(), HasSubstr("/dev/accel/accel1 may not be opened: add yourself to its group"));
    take_away("dev/accel/accel1");
    EXPECT_THAT(obstacle(), HasSubstr("has no device node"));
    take_away("sys/class/accel/accel1");
    EXPECT_THAT(obstacle(), HasSubstr("the NPU at 0000:c5:00.1 has no device node in /dev/accel: see dmesg"));
}

TEST_F(NpuDiscovery, SaysHowMuchMemoryMustBeLocked) {
    system_.memlock_bytes = uint64_t{8} << 20;
    EXPECT_THAT(obstacle(), HasSubstr("only 8192 KiB of memory may be locked, 256 MiB are needed: raise memlock"));
}

TEST_F(NpuDiscovery, SaysWhatIsWrongWithXrt) {
    take_away("opt/xilinx/xrt/lib/libxrt_driver_xdna.so.2");
    EXPECT_THAT(obstacle(), HasSubstr("XRT 2.19.0 lacks its plug-in for the NPU: install"));
    take_away("opt");
    EXPECT_THAT(obstacle(), HasSubstr("XRT 2.13.0 cannot drive an NPU, 2.17 is needed: install"));
    take_away("usr");
    EXPECT_THAT(obstacle(), HasSubstr("XRT is not installed: install"));
}

TEST_F(NpuDiscovery, NamesEveryObstacleAtOnce) {
    take_away("sys/module/amdxdna");
    take_away("lib");
    take_away("opt");
    take_away("dev");
    system_.memlock_bytes = 0;
    EXPECT_EQ(found().obstacles.size(), 5U);
    EXPECT_THAT(found().usable().error().message, HasSubstr("; "));
    for (const Obstacle& obstacle : found().obstacles) EXPECT_FALSE(obstacle.remedy.empty()) << obstacle.what;
}

TEST(NpuDiscoveryHere, LooksAtThisMachineWithoutFailing) {
    const Discovery discovery = discover(System::here());
    EXPECT_EQ(discovery.obstacles.empty(), static_cast<bool>(discovery.usable()));
    EXPECT_TRUE(discovery.device || !discovery.obstacles.empty());
}

}  // namespace
}  // namespace tandem::npu
