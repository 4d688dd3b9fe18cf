// What the doctor says of machines that are made up: each with its remedy.
#include "cli/doctor_findings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

device::Description radeon(const std::string& details) {
    return {.kind = device::Kind::integrated_gpu,
            .name = "vulkan:0",
            .hardware = "AMD Radeon 780M (RADV PHOENIX)",
            .details = details};
}

class Doctor : public testing::Test {
  protected:
    void SetUp() override {
        root_ = fs::path(testing::TempDir()) /
                fmt::format("tandem_doctor_{}", testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::remove_all(root_);
        facts_ = {.root = root_,
                  .may_open = [this](const fs::path& node) { return node.filename() != denied_; },
                  .memlock_bytes = uint64_t{1} << 30};
    }
    void TearDown() override { fs::remove_all(root_); }

    void put(const std::string& path, const std::string& line) {
        fs::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << line << "\n";
    }

    void add_card() {
        put("sys/bus/pci/devices/0000:c4:00.0/class", "0x030000");
        put("sys/bus/pci/devices/0000:c4:00.0/vendor", "0x1002");
        fs::create_directories(root_ / "sys/bus/pci/devices/0000:c4:00.0/drm/renderD128");
        put("dev/dri/renderD128", "");
    }

    // With all that it needs but what a test takes away.
    void add_npu() {
        const std::string at = "sys/bus/pci/devices/0000:c5:00.1";
        put(at + "/vendor", "0x1022");
        put(at + "/device", "0x1502");
        put(at + "/revision", "0x00");
        put(at + "/fw_version", "1.5.5.391");
        fs::create_directories(root_ / "sys/class/accel/accel0");
        fs::create_directory_symlink(root_ / at, root_ / "sys/class/accel/accel0/device");
        put("dev/accel/accel0", "");
        put("sys/module/amdxdna/version", "");
        put("proc/sys/kernel/osrelease", "6.14.0-29-generic");
        put("lib/firmware/amdnpu/1502_00/npu.sbin.zst", "");
        put("opt/xilinx/xrt/lib/libxrt_coreutil.so.2.19.0", "");
        put("opt/xilinx/xrt/lib/libxrt_driver_xdna.so.2", "");
    }

    // The findings about something, one a line, as the severity, what it is and the remedy.
    std::string about(const std::string& thing) const {
        std::string text;
        for (const Finding& finding : examine(facts_)) {
            if (finding.about != thing) continue;
            text += fmt::format("{}: {} -> {}\n", name(finding.severity), finding.what, finding.remedy);
        }
        return text;
    }
    bool is_broken() const {
        const std::vector<Finding> findings = examine(facts_);
        return std::any_of(findings.begin(), findings.end(),
                           [](const Finding& finding) { return finding.severity == Severity::broken; });
    }

    fs::path root_;
    std::string denied_;
    MachineFacts facts_;
};

TEST_F(Doctor, FindsNothingWrongWithAMachineThatHasNoGpu) {
    EXPECT_FALSE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("advice: no GPU was found: models run on the CPU"));
    EXPECT_THAT(about("NPU"), HasSubstr("good: none"));
}

TEST_F(Doctor, CallsADeviceOfSoftwareThat) {
    facts_.gpus = {
        {.kind = device::Kind::software_gpu, .name = "vulkan:0", .hardware = "llvmpipe", .details = "Mesa 22.3.6"}};
    EXPECT_FALSE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("good: vulkan:0: llvmpipe, Mesa 22.3.6: a device of software"));
    EXPECT_THAT(about("GPU"), HasSubstr("no GPU was found"));
}

TEST_F(Doctor, NamesTheDriverThatACardLacks) {
    add_card();
    EXPECT_TRUE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("broken: no Vulkan driver for the AMD GPU -> install mesa-vulkan-drivers"));
}

TEST_F(Doctor, NamesTheGroupOfANodeThatMayNotBeOpened) {
    add_card();
    denied_ = "renderD128";
    EXPECT_TRUE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("broken: /dev/dri/renderD128 may not be opened by this user -> add yourself to "
                                        "group render: sudo usermod -aG render $USER"));
    EXPECT_THAT(about("GPU"), Not(HasSubstr("no Vulkan driver"))) << "which is only not seen";
}

TEST_F(Doctor, SaysThatAMesaIsTooOldForMatrices) {
    add_card();
    facts_.gpus = {radeon("radv Mesa 22.3.6, Vulkan 1.3, subgroups of 64, integer dot")};
    EXPECT_FALSE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("advice: vulkan:0: AMD Radeon 780M"));
    EXPECT_THAT(about("GPU"), HasSubstr("Mesa 22.3 has no matrix products"));
    EXPECT_THAT(about("GPU"), HasSubstr("-> install Mesa 23.3 or newer"));
    facts_.gpus = {radeon("radv Mesa 25.0.7, Vulkan 1.4, subgroups of 64, integer dot, cooperative matrix")};
    EXPECT_THAT(about("GPU"), HasSubstr("good: vulkan:0: AMD Radeon 780M"));
    facts_.gpus = {radeon("radv Mesa 25.0.7, Vulkan 1.4, subgroups of 64")};
    EXPECT_THAT(about("GPU"), HasSubstr("it has no units for matrices")) << "a newer driver would not help";
}

TEST_F(Doctor, TellsWhyADeviceCannotBeUsed) {
    facts_.gpus = {radeon("cannot be used: lacks the feature shaderFloat16")};
    facts_.gpus[0].unusable = "lacks the feature shaderFloat16";
    EXPECT_TRUE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("lacks the feature shaderFloat16 -> install a newer driver"));
}

TEST_F(Doctor, KnowsABuildWithoutVulkan) {
    facts_.knows_vulkan = false;
    EXPECT_FALSE(is_broken());
    EXPECT_THAT(about("GPU"), HasSubstr("this build of tandem has no Vulkan"));
}

TEST_F(Doctor, FindsNothingWrongWithAnNpuThatHasAll) {
    add_npu();
    EXPECT_FALSE(is_broken()) << about("NPU");
    EXPECT_THAT(about("NPU"), HasSubstr("npu1"));
    EXPECT_THAT(about("NPU"), HasSubstr("Linux 6.14.0-29-generic, firmware 1.5.5.391, XRT 2.19.0"));
}

TEST_F(Doctor, NamesWhatAnNpuLacks) {
    add_npu();
    fs::remove_all(root_ / "lib/firmware");
    put("lib/firmware/amdnpu/1502_00/old.sbin", "");
    EXPECT_TRUE(is_broken());
    EXPECT_THAT(about("NPU"), HasSubstr("-> install your distribution's current linux-firmware"));
    put("lib/firmware/amdnpu/1502_00/npu.sbin", "");
    EXPECT_FALSE(is_broken());

    facts_.memlock_bytes = uint64_t{64} << 10;
    EXPECT_THAT(about("NPU"), HasSubstr("only 64 KiB of memory may be locked"));
    EXPECT_THAT(about("NPU"), HasSubstr("-> raise memlock in /etc/security/limits.conf"));
    facts_.memlock_bytes = uint64_t{1} << 30;

    denied_ = "accel0";
    EXPECT_THAT(about("NPU"), HasSubstr("broken: /dev/accel/accel0 may not be opened -> add yourself to its group"));
    denied_.clear();

    fs::remove_all(root_ / "sys/module/amdxdna");
    put("proc/sys/kernel/osrelease", "6.1.0-18-amd64");
    EXPECT_THAT(about("NPU"),
                HasSubstr("broken: Linux 6.1.0-18-amd64 does not have the driver amdxdna -> use Linux 6.14"));
}

TEST_F(Doctor, SaysWhenHugePagesAreOff) {
    EXPECT_EQ(about("memory"), "");
    put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
    EXPECT_EQ(about("memory"), "");
    put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
    EXPECT_THAT(about("memory"), HasSubstr("advice: huge pages are off"));
}

TEST_F(Doctor, SaysHowMuchTheKernelLendsTheGpu) {
    facts_.gpus = {radeon("radv Mesa 25.0.7, cooperative matrix")};
    put("sys/class/drm/card0/device/mem_info_gtt_total", "1048576");
    put("sys/class/drm/card0/device/mem_info_vram_total", "536870912");
#ifdef TANDEM_VULKAN
    EXPECT_THAT(about("memory"), HasSubstr("advice: the GPU may use 1.00 MiB of the machine's"));
    EXPECT_THAT(about("memory"), HasSubstr("-> for larger models add ttm.pages_limit="));
    put("sys/class/drm/card0/device/mem_info_gtt_total", "1125899906842624");  // more than there is
    EXPECT_THAT(about("memory"), HasSubstr("good: the GPU may use"));
#endif
    facts_.gpus.clear();
    EXPECT_EQ(about("memory"), "") << "nobody would use it";
}

}  // namespace
}  // namespace tandem::cli
