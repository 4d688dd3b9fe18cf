// Survey: which pipelines the steps of a Program need, found by a recording that records nothing.
#pragma once

#include <memory>
#include <set>

#include "device/backend.h"
#include "vulkan/stage.h"

namespace tandem::vulkan {

struct SurveyedSteps {
    const StagedProgram& staged;
    const graph::Weights& weights;  // their types and shapes alone
    graph::Extents limits;
    const DeviceCache* cache = nullptr;
    const Capabilities& capabilities;
    const Tuning& tuning;
    bool draws = false;  // tokens, which a step can feed back by itself
};

// Those of every step within the limits.
Result<std::set<PipelineKey>> survey(const SurveyedSteps& steps);

struct SurveyedProgram {
    const graph::Program& program;
    const graph::Weights& weights;
    device::CacheShape cache;
    graph::Extents limits;
    std::vector<std::string> results;
};

// Those of a Program, for a device that is not going to run it: nothing is allocated there.
Result<std::set<PipelineKey>> survey(const std::shared_ptr<Device>& device, const Tuning& tuning,
                                     const SurveyedProgram& surveyed);

}  // namespace tandem::vulkan
