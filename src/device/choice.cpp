#include "device/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/units.h"

namespace tandem::device {

namespace {

// With a cache and what steps compute in, a model takes more than its weights.
uint64_t needed_bytes(uint64_t weight_bytes) {
    return weight_bytes == 0 ? 0 : weight_bytes + weight_bytes / 10 + (uint64_t{256} << 20);
}

// What a model can have there and still be read fast: over a bus, the memory of the host is slower than a CPU reads it.
uint64_t room(const Description& gpu) {
    if (gpu.kind == Kind::integrated_gpu) return gpu.free_bytes();
    return gpu.pools.empty() ? 0 : gpu.pools.front().free_bytes;
}

bool is_hardware(const Description& gpu) {
    return gpu.kind == Kind::gpu || gpu.kind == Kind::integrated_gpu;
}

std::string first_line(const std::filesystem::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

// The node of /dev/dri that computes on the card; empty: its kernel driver made none.
std::filesystem::path render_node(const std::filesystem::path& root, const std::filesystem::path& card) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(card / "drm", ignored)) {
        const std::string name = entry.path().filename();
        if (name.starts_with("renderD")) return root / "dev/dri" / name;
    }
    return {};
}

}  // namespace

DeviceChoice choose_device(const Candidates& candidates, uint64_t weight_bytes) {
    const Description* best = nullptr;      // that holds the model
    const Description* roomiest = nullptr;  // if none does
    std::string unusable;
    for (const Description& gpu : candidates.gpus) {
        if (!is_hardware(gpu)) continue;
        if (!gpu.unusable.empty()) {
            unusable = fmt::format("{} {}", gpu.hardware, gpu.unusable);
            continue;
        }
        if (roomiest == nullptr || room(gpu) > room(*roomiest)) roomiest = &gpu;
        if (room(gpu) < needed_bytes(weight_bytes)) continue;
        const bool better =
            best == nullptr || (best->kind != gpu.kind ? gpu.kind == Kind::gpu : room(gpu) > room(*best));
        if (better) best = &gpu;
    }
    if (best != nullptr) return {.gpu = best, .why = {}};
    if (roomiest != nullptr) {
        return {.gpu = nullptr,
                .why = fmt::format("running on the CPU: the model needs about {}, and {} has {} free (--device {} "
                                   "takes it all the same)",
                                   format_bytes(needed_bytes(weight_bytes)), roomiest->hardware,
                                   format_bytes(room(*roomiest)), roomiest->name)};
    }
    if (!unusable.empty()) return {.gpu = nullptr, .why = fmt::format("running on the CPU: {}", unusable)};
    if (candidates.cards.empty()) return {};
    const GraphicsCard& card = candidates.cards.front();
    return {.gpu = nullptr,
            .why = fmt::format("running on the CPU: no Vulkan driver was found for the {} GPU: {}", card.vendor,
                               card.remedy)};
}

std::vector<GraphicsCard> find_cards(const std::filesystem::path& root,
                                     const std::function<bool(const std::filesystem::path&)>& may_open) {
    struct Vendor {
        const char* id;
        const char* name;
        const char* remedy;
    };
    constexpr const char* kMesa = "install mesa-vulkan-drivers";
    constexpr Vendor kVendors[] = {
        {"0x1002", "AMD", kMesa},
        {"0x10de", "NVIDIA", "install NVIDIA's driver with Vulkan (Debian: nvidia-vulkan-icd)"},
        {"0x8086", "Intel", kMesa}};
    std::vector<GraphicsCard> cards;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(root / "sys/bus/pci/devices", ignored)) {
        if (!first_line(entry.path() / "class").starts_with("0x03")) continue;  // display controllers
        const std::string id = first_line(entry.path() / "vendor");
        const auto* const vendor =
            std::find_if(std::begin(kVendors), std::end(kVendors), [&](const Vendor& v) { return id == v.id; });
        if (vendor == std::end(kVendors)) continue;
        const std::filesystem::path node = render_node(root, entry.path());
        const bool denied = !node.empty() && !may_open(node);
        cards.push_back({.vendor = vendor->name,
                         .remedy = denied ? fmt::format("you may not open {}: join its group (usually render)",
                                                        node.filename().string())
                                          : std::string(vendor->remedy)});
    }
    return cards;
}

}  // namespace tandem::device
