#include "cli/doctor_findings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#include "base/units.h"
#include "device/choice.h"
#include "npu/xrt/discovery.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#include "vulkan/placement.h"
#endif

namespace tandem::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::pair<int, int> kOldestMatrixMesa{23, 3};  // whose RADV multiplies matrices

std::string first_line_of(const fs::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

// "radv Mesa 22.3.6": {22, 3}; none where the driver is another.
std::optional<std::pair<int, int>> mesa_version(std::string_view details) {
    constexpr std::string_view kMesa = "Mesa ";
    const size_t at = details.find(kMesa);
    if (at == std::string_view::npos) return std::nullopt;
    const char* const end = details.data() + details.size();
    std::pair<int, int> version;
    const auto major = std::from_chars(details.data() + at + kMesa.size(), end, version.first);
    if (major.ec != std::errc() || major.ptr == end || *major.ptr != '.') return std::nullopt;
    if (std::from_chars(major.ptr + 1, end, version.second).ec != std::errc()) return std::nullopt;
    return version;
}

bool is_hardware(const device::Description& gpu) {
    return gpu.kind == device::Kind::gpu || gpu.kind == device::Kind::integrated_gpu;
}

Finding finding_of(const device::Description& gpu) {
    const std::string what = fmt::format("{}: {}, {}", gpu.name, gpu.hardware, gpu.details);
    if (!is_hardware(gpu)) {
        return {Severity::good, "GPU", what + ": a device of software, for tests; `auto` never takes it"};
    }
    if (!gpu.unusable.empty()) {
        return {Severity::broken, "GPU", what,
                "install a newer driver (AMD, Intel: Mesa, on Debian mesa-vulkan-drivers, of backports where there are "
                "some; NVIDIA: its own)"};
    }
    if (gpu.details.find("cooperative matrix") != std::string::npos) return {Severity::good, "GPU", what};
    const auto mesa = mesa_version(gpu.details);
    if (mesa && *mesa < kOldestMatrixMesa) {
        return {Severity::advice, "GPU",
                what + fmt::format(": Mesa {}.{} has no matrix products, prompts take several times as long",
                                   mesa->first, mesa->second),
                fmt::format("install Mesa {}.{} or newer (Debian 12: apt install -t bookworm-backports "
                            "mesa-vulkan-drivers)",
                            kOldestMatrixMesa.first, kOldestMatrixMesa.second)};
    }
    return {Severity::good, "GPU", what + "; it has no units for matrices"};
}

// The nodes of /dev/dri that compute, which this user may not open.
std::vector<std::string> denied_nodes(const MachineFacts& facts) {
    std::vector<std::string> denied;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(facts.root / "dev/dri", ignored)) {
        const std::string node = entry.path().filename();
        if (node.starts_with("renderD") && !facts.may_open(entry.path())) denied.push_back("/dev/dri/" + node);
    }
    std::sort(denied.begin(), denied.end());
    return denied;
}

void examine_gpus(const MachineFacts& facts, std::vector<Finding>& findings) {
    for (const device::Description& gpu : facts.gpus) findings.push_back(finding_of(gpu));
    const std::vector<std::string> denied = denied_nodes(facts);
    for (const std::string& node : denied) {
        findings.push_back({Severity::broken, "GPU", fmt::format("{} may not be opened by this user", node),
                            "add yourself to group render: sudo usermod -aG render $USER, and log in again (older "
                            "systems: group video)"});
    }
    if (std::any_of(facts.gpus.begin(), facts.gpus.end(), is_hardware)) return;
    const std::vector<device::GraphicsCard> cards = device::find_cards(facts.root, facts.may_open);
    if (!facts.knows_vulkan) {
        findings.push_back({Severity::advice, "GPU", "this build of tandem has no Vulkan",
                            "configure it with TANDEM_VULKAN, or install a package that has it"});
    } else if (cards.empty() && denied.empty()) {
        findings.push_back({Severity::advice, "GPU", "no GPU was found: models run on the CPU"});
    } else if (denied.empty()) {
        for (const device::GraphicsCard& card : cards) {
            findings.push_back(
                {Severity::broken, "GPU", fmt::format("no Vulkan driver for the {} GPU", card.vendor), card.remedy});
        }
    }
}

void examine_shared_memory([[maybe_unused]] const MachineFacts& facts,
                           [[maybe_unused]] std::vector<Finding>& findings) {
#ifdef TANDEM_VULKAN
    const auto memory = vulkan::read_machine_memory(facts.root / "sys");
    const bool shares = std::any_of(facts.gpus.begin(), facts.gpus.end(), [](const device::Description& gpu) {
        return gpu.kind == device::Kind::integrated_gpu;
    });
    if (!memory || !shares || memory->size_bytes == 0) return;
    const uint64_t lent = memory->ttm_bytes > 0 ? std::min(memory->gtt_bytes, memory->ttm_bytes) : memory->gtt_bytes;
    const std::string what =
        fmt::format("the GPU may use {} of the machine's {}, and {} that the firmware set aside", format_bytes(lent),
                    format_bytes(memory->size_bytes), format_bytes(memory->carve_out_bytes));
    constexpr double kEnough = 0.7;
    constexpr double kSensible = 0.85;  // the system needs the rest
    if (static_cast<double>(lent) >= kEnough * static_cast<double>(memory->size_bytes)) {
        findings.push_back({Severity::good, "memory", what});
        return;
    }
    constexpr uint64_t kPageBytes = 4096;
    const auto wanted = static_cast<uint64_t>(kSensible * static_cast<double>(memory->size_bytes));
    findings.push_back({Severity::advice, "memory", what,
                        fmt::format("for larger models add ttm.pages_limit={} amdgpu.gttsize={} to the kernel's "
                                    "parameters, and restart",
                                    wanted / kPageBytes, wanted >> 20)});
#endif
}

void examine_pages(const MachineFacts& facts, std::vector<Finding>& findings) {
    const std::string pages = first_line_of(facts.root / "sys/kernel/mm/transparent_hugepage/enabled");
    if (pages.find("[never]") == std::string::npos) return;
    findings.push_back({Severity::advice, "memory", "huge pages are off: a CPU reads weights some percent more slowly",
                        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"});
}

void examine_npu(const MachineFacts& facts, std::vector<Finding>& findings) {
    const npu::Discovery found =
        npu::discover({.root = facts.root, .memlock_bytes = facts.memlock_bytes, .may_open = facts.may_open});
    if (!found.device) {
        findings.push_back({Severity::good, "NPU", "none; nothing needs one"});
        return;
    }
    const fs::path pci = facts.root / "sys/bus/pci/devices" / found.device->pci;
    const std::string firmware = first_line_of(pci / "fw_version");
    std::string what = fmt::format("{} ({}), Linux {}", found.device->hardware, found.device->array,
                                   first_line_of(facts.root / "proc/sys/kernel/osrelease"));
    if (!firmware.empty()) what += ", firmware " + firmware;
    if (!found.xrt.empty()) what += ", XRT " + found.xrt;
    findings.push_back({Severity::good, "NPU", what});
    for (const npu::Obstacle& obstacle : found.obstacles)
        findings.push_back({Severity::broken, "NPU", obstacle.what, obstacle.remedy});
}

}  // namespace

MachineFacts MachineFacts::here() {
    const npu::System system = npu::System::here();
    MachineFacts facts{.root = system.root, .may_open = system.may_open, .memlock_bytes = system.memlock_bytes};
#ifdef TANDEM_VULKAN
    facts.gpus = vulkan::list_devices();
#else
    facts.knows_vulkan = false;
#endif
    return facts;
}

std::string_view name(Severity severity) {
    switch (severity) {
        case Severity::good:
            return "good";
        case Severity::advice:
            return "advice";
        case Severity::broken:
            return "broken";
    }
    return "";
}

std::vector<Finding> examine(const MachineFacts& facts) {
    std::vector<Finding> findings;
    examine_gpus(facts, findings);
    examine_shared_memory(facts, findings);
    examine_pages(facts, findings);
    examine_npu(facts, findings);
    return findings;
}

}  // namespace tandem::cli
