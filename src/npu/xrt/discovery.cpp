#include "npu/xrt/discovery.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>

namespace tandem::npu {

namespace {

namespace fs = std::filesystem;

// The heap that the driver locks for every process is 64 MiB; instructions and buffers come on top.
constexpr uint64_t kMemlockBytes = uint64_t{256} << 20;
constexpr std::array<int, 2> kOldestKernel{6, 14};  // with the driver in it
constexpr std::array<int, 2> kOldestXrt{2, 17};     // with hardware contexts

// As the driver asks for it: one for developers, that of its own version, and the first.
constexpr const char* kFirmware[] = {"npu.dev.sbin", "npu_7.sbin", "npu.sbin"};

struct KnownNpu {
    const char* device;  // its PCI number
    const char* array;
};
constexpr KnownNpu kKnown[] = {{"1502", "npu1"}, {"17f0", "npu2"}};

// The first line of a small file such as those of sysfs; empty when there is none.
std::string line_of(const fs::path& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::string without_0x(std::string text) {
    return text.starts_with("0x") ? text.substr(2) : text;
}

// What lies in a directory, in the order of the names; nothing when there is none.
std::vector<fs::path> entries(const fs::path& directory) {
    std::vector<fs::path> paths;
    std::error_code error;
    for (auto at = fs::directory_iterator(directory, error); !error && at != fs::directory_iterator();
         at.increment(error))
        paths.push_back(at->path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

// "6.14.0-29-generic" -> {6, 14}; zeros for what is no version.
std::array<int, 2> version_of(std::string_view text) {
    std::array<int, 2> version{};
    const char* end = text.data() + text.size();
    const auto major = std::from_chars(text.data(), end, version[0]);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return {};
    if (std::from_chars(major.ptr + 1, end, version[1]).ec != std::errc()) return {};
    return version;
}

struct PciFunction {
    fs::path path;
    std::string revision;  // "00"
};

std::optional<PciFunction> find_npu(const fs::path& root, NpuDevice& npu) {
    for (const fs::path& path : entries(root / "sys/bus/pci/devices")) {
        if (line_of(path / "vendor") != "0x1022") continue;
        const std::string device = without_0x(line_of(path / "device"));
        const auto* known =
            std::find_if(std::begin(kKnown), std::end(kKnown), [&](const KnownNpu& k) { return device == k.device; });
        if (known == std::end(kKnown)) continue;
        PciFunction found{path, without_0x(line_of(path / "revision"))};
        npu.array = known->array;
        npu.pci = path.filename();
        npu.hardware = fmt::format("AMD XDNA NPU 1022:{} rev {}", device, found.revision);
        return found;
    }
    return std::nullopt;
}

void check_driver(const fs::path& root, Discovery& found) {
    if (is_there(root / "sys/module/amdxdna")) return;
    const std::string release = line_of(root / "proc/sys/kernel/osrelease");
    if (version_of(release) < kOldestKernel) {
        found.obstacles.push_back({fmt::format("Linux {} does not have the driver amdxdna", release),
                                   "use Linux 6.14 or newer, or build the driver of github.com/amd/xdna-driver"});
        return;
    }
    found.obstacles.push_back({"the driver amdxdna is not loaded",
                               "run modprobe amdxdna, and see dmesg when it fails (the kernel needs "
                               "CONFIG_DRM_ACCEL_AMDXDNA, and the IOMMU must be on)"});
}

void check_firmware(const fs::path& root, const std::string& name, Discovery& found) {
    for (const char* directory : {"lib/firmware", "usr/lib/firmware", "lib/firmware/updates"}) {
        for (const fs::path& path : entries(root / directory / "amdnpu" / name)) {
            const std::string file = path.filename();
            const auto is = [&](const char* known) { return file.starts_with(known); };  // .xz, .zst behind it
            if (std::any_of(std::begin(kFirmware), std::end(kFirmware), is)) return;
        }
    }
    found.obstacles.push_back({fmt::format("the firmware amdnpu/{}/npu.sbin (or npu_7.sbin) is missing", name),
                               "install your distribution's current linux-firmware, then run modprobe -r amdxdna and "
                               "modprobe amdxdna"});
}

// The node whose device in sysfs is the NPU: other accelerators have such nodes too.
void check_node(const System& system, const fs::path& pci, Discovery& found) {
    for (const fs::path& path : entries(system.root / "sys/class/accel")) {
        std::error_code error;
        if (fs::weakly_canonical(path / "device", error) == fs::weakly_canonical(pci, error) && !error)
            found.device->node = fmt::format("/dev/accel/{}", path.filename().string());
    }
    const fs::path node = system.root / fs::path(found.device->node).relative_path();
    if (found.device->node.empty() || !is_there(node)) {
        found.obstacles.push_back({fmt::format("the NPU at {} has no device node in /dev/accel", found.device->pci),
                                   "see dmesg for why the driver amdxdna did not take it"});
    } else if (!system.may_open(node)) {
        found.obstacles.push_back({fmt::format("{} may not be opened", found.device->node),
                                   "add yourself to its group with usermod -aG render $USER, and log in again"});
    }
}

void check_memlock(uint64_t memlock_bytes, Discovery& found) {
    if (memlock_bytes >= kMemlockBytes) return;
    found.obstacles.push_back({fmt::format("only {} KiB of memory may be locked, {} MiB are needed",
                                           memlock_bytes >> 10, kMemlockBytes >> 20),
                               "raise memlock in /etc/security/limits.conf (or LimitMEMLOCK= of the service), and "
                               "log in again"});
}

void check_xrt(const fs::path& root, Discovery& found) {
    constexpr std::string_view kLibrary = "libxrt_coreutil.so.";
    bool plugin = false;
    for (const char* directory : {"opt/xilinx/xrt/lib", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib"}) {
        for (const fs::path& path : entries(root / directory)) {
            const std::string file = path.filename();
            plugin = plugin || file.starts_with("libxrt_driver_xdna.so");
            if (!file.starts_with(kLibrary) || file.find('.', kLibrary.size()) == std::string::npos) continue;
            const std::string version = file.substr(kLibrary.size());
            if (version_of(version) > version_of(found.xrt)) found.xrt = version;
        }
    }
    constexpr const char* kInstall =
        "install the packages xrt and xrt_plugin-amdxdna that github.com/amd/xdna-driver "
        "builds, and build Tandem on this machine";
    if (found.xrt.empty()) {
        found.obstacles.push_back({"XRT is not installed", kInstall});
    } else if (version_of(found.xrt) < kOldestXrt) {
        found.obstacles.push_back({fmt::format("XRT {} cannot drive an NPU, 2.17 is needed", found.xrt), kInstall});
    } else if (!plugin) {
        found.obstacles.push_back({fmt::format("XRT {} lacks its plug-in for the NPU", found.xrt), kInstall});
    }
}

}  // namespace

System System::here() {
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
    System system;
    // Who may do everything is not held by the limit.
    system.memlock_bytes = known && geteuid() != 0 ? limit.rlim_cur : std::numeric_limits<uint64_t>::max();
    system.may_open = [](const fs::path& node) { return access(node.c_str(), R_OK | W_OK) == 0; };
    return system;
}

Status Discovery::usable() const {
    if (obstacles.empty()) return Ok{};
    std::string text;
    for (const Obstacle& obstacle : obstacles)
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", obstacle.what, obstacle.remedy);
    return fail("the NPU cannot be used: {}", text);
}

Discovery discover(const System& system) {
    Discovery found;
    NpuDevice npu;
    const std::optional<PciFunction> pci = find_npu(system.root, npu);
    if (!pci) {
        found.obstacles.push_back(
            {"this machine has no AMD XDNA NPU (PCI 1022:1502 or 1022:17f0)",
             "turn it on in the firmware setup if the processor has one, or run on other devices"});
        return found;
    }
    found.device = npu;
    check_driver(system.root, found);
    check_firmware(system.root, fmt::format("{}_{}", without_0x(line_of(pci->path / "device")), pci->revision), found);
    check_node(system, pci->path, found);
    check_memlock(system.memlock_bytes, found);
    check_xrt(system.root, found);
    return found;
}

}  // namespace tandem::npu
