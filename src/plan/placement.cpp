#include "plan/placement.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "graph/ops.h"
#include "graph/segment.h"

namespace tandem::plan {

namespace {

constexpr std::array<std::pair<Policy, std::string_view>, 5> kPolicies = {{
    {Policy::main_only, "gpu"},
    {Policy::npu_attention, "npu-attention"},
    {Policy::npu_prefill, "npu-prefill"},
    {Policy::npu_alone, "npu"},
    {Policy::automatic, "auto"},
}};

}  // namespace

Result<Policy> parse_policy(std::string_view text) {
    for (const auto& [policy, policy_name] : kPolicies) {
        if (policy_name == text) return policy;
    }
    return fail("'{}' is no placement: choose auto, gpu, npu-attention, npu-prefill or npu", text);
}

std::string_view name(Policy policy) {
    const auto* const found =
        std::find_if(kPolicies.begin(), kPolicies.end(), [&](const auto& each) { return each.first == policy; });
    return found->second;
}

std::string describe(const Placement& placement, const graph::Program& program) {
    if (placement.policy != Policy::npu_prefill) return std::string(name(placement.policy));
    return fmt::format("npu-prefill, {} of {} layers", placement.npu_layers, program.caches.size());
}

// A layer begins between its attention and that of the layer before, where the fewest values cross, as late as may be;
// the last one ends with the last sum.
std::vector<size_t> layer_starts(const graph::Program& program) {
    const std::vector<int> crossing = graph::crossing_counts(program);
    std::vector<size_t> starts;
    size_t end = 0;
    size_t from = 1;  // what reads the tokens is before all layers
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        const graph::Node& node = program.nodes[n];
        if (node.op.as<op::Add>() != nullptr) end = n + 1;
        if (node.op.as<op::Attention>() == nullptr) continue;
        size_t best = from;
        for (size_t at = from; at <= n; ++at) {
            if (crossing[at] <= crossing[best]) best = at;
        }
        starts.push_back(best);
        from = n + 1;
    }
    starts.push_back(end);
    return starts;
}

namespace {

// Attention, and what it reads. One token's is little work, and a design to change to in every layer.
bool attends(const graph::Node& node) {
    return node.op.as<op::Attention>() != nullptr || node.op.as<op::KvWrite>() != nullptr;
}

// The nodes that the placement is about, in the order of the Program.
std::vector<size_t> offered(const graph::Program& program, const Placement& placement) {
    std::vector<size_t> nodes;
    if (placement.policy == Policy::npu_attention) {
        for (size_t n = 0; n < program.nodes.size(); ++n) {
            if (program.nodes[n].op.as<op::Attention>() != nullptr) nodes.push_back(n);
        }
    }
    if (placement.policy == Policy::npu_prefill || placement.policy == Policy::npu_alone) {
        const bool alone = placement.policy == Policy::npu_alone;
        const std::vector<size_t> starts = layer_starts(program);
        const auto layers = static_cast<int64_t>(starts.size()) - 1;
        const int64_t taken = alone ? layers : std::clamp<int64_t>(placement.npu_layers, 0, layers);
        for (int64_t i = 0; i < layers; ++i) {
            if ((i + 1) * taken / layers == i * taken / layers) continue;
            const auto layer = static_cast<size_t>(i);
            for (size_t n = starts[layer]; n < starts[layer + 1]; ++n) {
                if (!alone || !attends(program.nodes[n])) nodes.push_back(n);
            }
        }
    }
    return nodes;
}

}  // namespace

std::vector<int> place(const graph::Program& program, const Placement& placement, const device::Backend& npu) {
    std::vector<int> devices(program.nodes.size(), kMain);
    for (const size_t n : offered(program, placement)) {
        if (npu.supports(program, program.nodes[n])) devices[n] = kNpu;
    }
    return devices;
}

std::vector<std::string> describe_left(const graph::Program& program, const Placement& placement,
                                       const Obstacle& obstacle) {
    std::map<std::string, int> left;  // "op: obstacle", and how often
    for (const size_t n : offered(program, placement)) {
        const graph::Node& node = program.nodes[n];
        const std::string why = obstacle(program, node);
        if (!why.empty()) ++left[fmt::format("{}: {}", node.op.name(), why)];
    }
    std::vector<std::string> lines;
    lines.reserve(left.size());
    for (const auto& [what, count] : left) lines.push_back(fmt::format("{} x {}", count, what));
    return lines;
}

}  // namespace tandem::plan
