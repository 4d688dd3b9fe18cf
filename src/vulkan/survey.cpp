#include "vulkan/survey.h"

#include <algorithm>

#include "graph/ops.h"
#include "vulkan/kernels/advance.h"
#include "vulkan/lower.h"

namespace tandem::vulkan {

namespace {

Status survey_bucket(const SurveyedSteps& steps, const Bucket& bucket, std::span<const DeviceWeight> weights,
                     std::set<PipelineKey>& needed) {
    const StageArgs args{.bucket = bucket,
                         .step = {},
                         .cache = steps.cache,
                         .capabilities = steps.capabilities,
                         .tuning = steps.tuning,
                         .value = [](ValueIndex) { return Access{}; },
                         .weight = [&](WeightIndex index) { return weights[static_cast<size_t>(index)]; },
                         .constant = [](std::span<const std::byte>) { return VkDeviceAddress{0}; }};
    Recorder recorder(needed);
    if (is_chained(steps.tuning, bucket)) TRY(recorder.begin_chain({}, {}));
    for (const Stage& stage : steps.staged.stages) {
        if (!steps.staged.skips(stage, bucket)) TRY(stage.record(recorder, args));
    }
    if (steps.draws && bucket.can_repeat()) TRY(record_advance(recorder, {}, {}, {}));
    return Ok{};
}

}  // namespace

Result<std::set<PipelineKey>> survey(const SurveyedSteps& steps) {
    std::vector<DeviceWeight> foreseen;
    for (const StageWeight& weight : steps.staged.weights) {
        foreseen.push_back(WeightStore::foresee(parts_of(weight, steps.weights), weight.bounded));
    }
    std::set<PipelineKey> needed;
    std::vector<int64_t> outputs = all_bucket_rows(steps.limits.outputs);
    outputs.push_back(0);
    for (int64_t tokens : all_bucket_rows(steps.limits.tokens)) {
        for (int64_t wanted : outputs) {
            for (bool one_row_each : {false, true}) {
                const Bucket bucket{.extents = {.tokens = tokens, .outputs = wanted}, .one_row_each = one_row_each};
                TRY(survey_bucket(steps, bucket, foreseen, needed));
            }
        }
    }
    return needed;
}

Result<std::set<PipelineKey>> survey(const std::shared_ptr<Device>& device, const Tuning& tuning,
                                     const SurveyedProgram& surveyed) {
    const graph::Program program = graph::keep_results(surveyed.program, surveyed.results);
    const std::shared_ptr<DeviceCache> cache = TRY(DeviceCache::foresee(device, surveyed.cache));
    const Capabilities& capabilities = device->capabilities();
    const StagedProgram staged =
        TRY(lower(program, {.cache = cache.get(), .tuning = tuning, .capabilities = capabilities}));
    const bool draws = std::any_of(program.nodes.begin(), program.nodes.end(),
                                   [](const graph::Node& node) { return node.op.as<op::Sample>() != nullptr; });
    return survey({.staged = staged,
                   .weights = surveyed.weights,
                   .limits = surveyed.limits,
                   .cache = cache.get(),
                   .capabilities = capabilities,
                   .tuning = tuning,
                   .draws = draws});
}

}  // namespace tandem::vulkan
