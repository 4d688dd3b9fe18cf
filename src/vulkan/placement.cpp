#include "vulkan/placement.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <unordered_map>

#include "device/host_memory.h"
#include "graph/ops.h"
#include "vulkan/memory.h"

namespace tandem::vulkan {

namespace {

// For activations, logits and what the driver itself takes.
uint64_t reserve_of(uint64_t heap_bytes) {
    return std::min(uint64_t{512} << 20, heap_bytes / 16);
}

// Of the weight that is the input number `input` of a node, what a token reads.
double share_of(const graph::Program& program, const graph::Node& node, size_t input) {
    if (node.op.as<op::Embed>() != nullptr) return 0;
    if (node.op.as<op::ExpertLinear>() == nullptr || input > 0) return 1;
    const auto used = static_cast<double>(program.value(node.inputs[2]).type.cols()) / 2;
    return used / static_cast<double>(program.value(node.inputs[0]).type.shape[0].count);
}

// Of a file that holds nothing else; 0 where there is none.
uint64_t read_number(const std::filesystem::path& file) {
    uint64_t number = 0;
    std::ifstream(file) >> number;
    return number;
}

}  // namespace

std::vector<WeightDemand> weight_demands(const graph::Program& program) {
    std::vector<WeightDemand> demands;
    std::unordered_map<graph::ValueId, size_t> place;
    for (const graph::Node& node : program.nodes) {
        for (size_t input = 0; input < node.inputs.size(); ++input) {
            const graph::ValueId id = node.inputs[input];
            const graph::Value& value = program.value(id);
            if (value.kind != graph::Value::Kind::weight) continue;
            const auto [at, is_new] = place.emplace(id, demands.size());
            if (is_new) demands.push_back({.name = value.name, .size_bytes = value.type.size_bytes({}), .share = 0});
            double& share = demands[at->second].share;
            share = std::max(share, share_of(program, node, input));
        }
    }
    return demands;
}

WeightBudget weight_budget(const Device& device) {
    WeightBudget budget;
    for (const HeapBudget& heap : heap_budgets(device)) {
        const uint64_t usable = heap.free_bytes - std::min(heap.free_bytes, reserve_of(heap.size_bytes));
        (heap.device_local ? budget.device_bytes : budget.host_bytes) += usable;
    }
    if (device.info().type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) budget.machine = read_machine_memory();
    return budget;
}

std::optional<MachineMemory> read_machine_memory(const std::filesystem::path& sys) {
    std::vector<std::filesystem::path> gpus;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(sys / "class/drm", ignored)) {
        const std::filesystem::path device = entry.path() / "device";
        const bool is_card = entry.path().filename().string().find_first_of('-') == std::string::npos;
        if (is_card && std::filesystem::exists(device / "mem_info_gtt_total", ignored)) {
            gpus.push_back(std::filesystem::canonical(device, ignored));
        }
    }
    std::sort(gpus.begin(), gpus.end());
    gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());  // cards and their render nodes are the same
    if (gpus.size() != 1) return std::nullopt;
    constexpr uint64_t kPageBytes = device::HostBuffer::kPageBytes;
    return MachineMemory{.size_bytes = device::host_memory().size_bytes,
                         .carve_out_bytes = read_number(gpus[0] / "mem_info_vram_total"),
                         .gtt_bytes = read_number(gpus[0] / "mem_info_gtt_total"),
                         .ttm_bytes = read_number(sys / "module/ttm/parameters/pages_limit") * kPageBytes};
}

std::string memory_remedy(const MachineMemory& memory, uint64_t missing_bytes) {
    const uint64_t limit = memory.ttm_bytes > 0 ? std::min(memory.gtt_bytes, memory.ttm_bytes) : memory.gtt_bytes;
    const uint64_t wanted = limit + missing_bytes + reserve_of(limit);
    std::string text =
        fmt::format("; the GPU shares the machine's memory of {} MiB: {} MiB that the firmware sets aside",
                    memory.size_bytes >> 20, memory.carve_out_bytes >> 20);
    text += fmt::format(" (its setup: UMA frame buffer size) and {} MiB that the kernel lends", limit >> 20);
    if (wanted + reserve_of(memory.size_bytes) > memory.size_bytes) return text + ", too little for this model";
    const uint64_t pages = wanted / device::HostBuffer::kPageBytes;
    return text + fmt::format(" (the kernel's parameters ttm.pages_limit={} and amdgpu.gttsize={} would be enough)",
                              pages, wanted >> 20);
}

Result<std::unordered_set<std::string>> place_weights(std::span<const WeightDemand> demands,
                                                      const WeightBudget& budget) {
    std::unordered_set<std::string> in_host;
    uint64_t device = 0;
    uint64_t host = 0;
    const auto place = [&](const WeightDemand& demand) {
        if (device + demand.size_bytes <= budget.device_bytes) {
            device += demand.size_bytes;
        } else {
            host += demand.size_bytes;
            in_host.insert(demand.name);
        }
    };
    std::vector<const WeightDemand*> order;
    for (const WeightDemand& demand : demands) order.push_back(&demand);
    std::ranges::stable_sort(order, std::greater<>(), &WeightDemand::share);
    for (const WeightDemand* const demand : order) place(*demand);
    if (host > budget.host_bytes) {
        const uint64_t missing = host - budget.host_bytes;
        return fail(
            "the weights of {} MiB do not fit: {} MiB are missing beside {} MiB of GPU memory and {} MiB of host "
            "memory that the GPU reads; weights of {} % of that size would fit (fewer bits per weight, a smaller "
            "model), "
            "and a shorter --context or --kv q8_0 leaves more for them{}",
            (device + host) >> 20, (missing + (1 << 20) - 1) >> 20, budget.device_bytes >> 20, budget.host_bytes >> 20,
            100 * (device + host - missing) / (device + host),
            budget.machine ? memory_remedy(*budget.machine, missing) : "");
    }
    return in_host;
}

}  // namespace tandem::vulkan
