// Parts: a Program in the pieces that a split gives to devices, what they occupy and what they take.
#pragma once

#include <vector>

#include "device/backend.h"
#include "graph/segment.h"
#include "plan/split.h"

namespace tandem::plan {

// Layers that share keys and values stay together: such a run is a unit, and any other layer is one of its own.
struct Parts {
    int layers = 0;
    std::vector<int> units;  // the first layer of each, ascending
    // Before the first layer, each unit, and after the last; one of the two ends may have no nodes.
    std::vector<graph::Program> programs;
    std::vector<int> part_of_node;

    int first_layer(int unit) const {
        return unit == static_cast<int>(units.size()) ? layers : units[static_cast<size_t>(unit)];
    }
};

// Fails where there is no layer to split at.
Result<Parts> parts_of(const graph::Program& program);

// With a cache of that shape, which is the Program's.
PartBytes part_bytes(const Parts& parts, const device::CacheShape& cache);

// Numbers of layers as numbers of units, up to the one past the last; fails where one is inside a unit.
Result<std::vector<int>> units_at(const Parts& parts, const std::vector<int>& layer_cuts);

// Segments for stages of units: what is before the first layer goes with it, what is after the last with that.
std::vector<graph::Segment> cut_at(const graph::Program& program, const Parts& parts,
                                   const std::vector<SplitStage>& stages);

// What each part takes on a device, from the measured time of a layer in the middle and the work of all.
struct PartTimes {
    std::vector<PartSeconds> units;
    PartSeconds last;
};
inline constexpr int kMeasuredRows = 128;  // of the prompt that PartSeconds::prompt is of
// `rows`: of the prompt.
Result<PartTimes> measure_parts(const Parts& parts, device::Backend& device, const graph::Weights& weights,
                                const device::CacheShape& cache, int rows);

}  // namespace tandem::plan
