#include "ranks/parts.h"

#include <algorithm>

#include "graph/segment.h"
#include "plan/parts.h"

namespace tandem::ranks {

namespace {

// What a part is given by those before it, in the order of its inputs.
std::vector<std::string> taken(const graph::Program& program) {
    std::vector<std::string> names;
    for (const graph::Value& value : program.values) {
        if (value.kind == graph::Value::Kind::input && value.name != graph::kTokens &&
            value.name != graph::kPositions && value.name != graph::kOutputRows)
            names.push_back(value.name);
    }
    return names;
}

}  // namespace

Result<std::vector<Part>> cut_into_parts(const graph::Program& program, std::span<const int> cuts) {
    const plan::Parts whole = TRY(plan::parts_of(program));
    if (!std::ranges::is_sorted(cuts) || (!cuts.empty() && (cuts.front() < 0 || cuts.back() > whole.layers)))
        return fail("a split of {} layers before layers {}", whole.layers, fmt::join(cuts, ", "));
    const std::vector<int> units = TRY(plan::units_at(whole, {cuts.begin(), cuts.end()}));
    const auto last = static_cast<int>(cuts.size());
    std::vector<int> rank_of_node;
    for (const int part : whole.part_of_node) {
        const int unit = part - 1;
        const bool behind = unit == std::ssize(whole.units);
        rank_of_node.push_back(
            behind ? last : static_cast<int>(std::ranges::upper_bound(units, std::max(unit, 0)) - units.begin()));
    }
    std::vector<Part> parts(cuts.size() + 1);
    for (size_t p = 0; p < parts.size(); ++p) {
        parts[p].first_layer = p > 0 ? cuts[p - 1] : 0;
        parts[p].end_layer = p < cuts.size() ? cuts[p] : whole.layers;
    }
    for (graph::Segment& segment : graph::cut(program, rank_of_node)) {
        Part& part = parts[static_cast<size_t>(segment.device)];
        part.program = std::move(segment.program);
        graph::take_caches(part.program);
        part.takes = taken(part.program);
    }
    return parts;
}

graph::Weights weights_of(const graph::Program& program, const graph::Weights& weights) {
    graph::Weights used;
    for (const graph::Value& value : program.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        if (const graph::WeightView* view = weights.find(value.name)) used.add(value.name, *view);
    }
    return used;
}

}  // namespace tandem::ranks
