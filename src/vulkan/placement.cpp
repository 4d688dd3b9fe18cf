#include "vulkan/placement.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

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
    return budget;
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
        return fail(
            "the weights of {} MiB do not fit: {} MiB are missing beside {} MiB of GPU memory and {} MiB of host "
            "memory that the GPU reads; take a smaller model, fewer bits per weight or a shorter --context",
            (device + host) >> 20, ((host - budget.host_bytes) + (1 << 20) - 1) >> 20, budget.device_bytes >> 20,
            budget.host_bytes >> 20);
    }
    return in_host;
}

}  // namespace tandem::vulkan
