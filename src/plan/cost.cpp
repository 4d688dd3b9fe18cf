#include "plan/cost.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "graph/ops.h"
#include "graph/segment.h"
#include "plan/micro_batch.h"
#include "plan/pipeline.h"
#include "plan/work.h"

namespace tandem::plan {

namespace {

constexpr device::StepCost kUnknown{.seconds = std::numeric_limits<double>::infinity()};  // never chosen

// One sequence's rows, of which the last is wanted.
device::Batch batch_of(const ChunkShape& chunk) {
    device::Batch batch;
    batch.tokens.resize(static_cast<size_t>(chunk.rows));
    batch.positions.resize(static_cast<size_t>(chunk.rows));
    std::iota(batch.positions.begin(), batch.positions.end(), chunk.past);
    batch.sequences.push_back({.first_row = 0, .rows = chunk.rows, .past = chunk.past, .blocks = {}});
    batch.output_rows = {chunk.rows - 1};
    return batch;
}

// Products and attention have a dispatch each; everything else is done in one of theirs.
int dispatches(const graph::Program& program) {
    return static_cast<int>(std::count_if(program.nodes.begin(), program.nodes.end(), [](const graph::Node& node) {
        return node.op.as<op::Linear>() != nullptr || node.op.as<op::ExpertLinear>() != nullptr ||
               node.op.as<op::Attention>() != nullptr;
    }));
}

double main_seconds(const graph::Program& program, const Work& work, const device::Rates& rates) {
    const double computing = rates.matrix_flops_per_s > 0 ? work.flops / rates.matrix_flops_per_s : 0;
    const double reading = rates.read_bytes_per_s > 0 ? work.bytes / rates.read_bytes_per_s : 0;
    return std::max(computing, reading) + dispatches(program) * kDispatchSeconds;
}

}  // namespace

Prediction predict(const graph::Program& program, const Placement& placement, const ChunkShape& chunk,
                   const Machine& machine) {
    const device::Batch batch = batch_of(chunk);
    if (placement.policy == Policy::main_only) {
        const Work work = work_of(program, batch, chunk.kv_dtype);
        const double seconds = main_seconds(program, work, machine.main);
        return {.placement = placement, .seconds = seconds, .main_busy_s = seconds, .memory_bytes = work.bytes};
    }
    const std::vector<graph::Segment> segments = graph::cut(program, place(program, placement, *machine.npu));
    const std::vector<MicroBatch> parts = split(batch, chunk.micro_rows);
    std::vector<int> devices(segments.size());
    std::transform(segments.begin(), segments.end(), devices.begin(),
                   [](const auto& segment) { return segment.device; });
    PipelineOrder order({.micro_batches = static_cast<int>(parts.size()), .device_of_segment = devices});
    double memory_bytes = 0;
    const PipelineTime time = simulate_pipeline(order, [&](Task task) {
        const graph::Segment& segment = segments[static_cast<size_t>(task.segment)];
        const device::Batch& part = parts[static_cast<size_t>(task.micro_batch)].batch;
        if (segment.device == kNpu) {
            const device::StepCost cost = machine.npu->predict(segment.program, part).value_or(kUnknown);
            memory_bytes += cost.memory_bytes;
            return cost.seconds;
        }
        const Work work = work_of(segment.program, part, chunk.kv_dtype);
        memory_bytes += work.bytes;
        return main_seconds(segment.program, work, machine.main);
    });
    const double reads = machine.main.read_bytes_per_s;
    return {.placement = placement,
            .seconds = std::max(time.seconds, reads > 0 ? memory_bytes / reads : 0),
            .main_busy_s = time.busy[kMain],
            .npu_busy_s = time.busy.size() > kNpu ? time.busy[kNpu] : 0,
            .memory_bytes = memory_bytes};
}

// All are tried: which layers are neighbours and how they overlap changes with their number, so the time may have more
// than one valley.
Prediction best_npu_prefill(const graph::Program& program, const ChunkShape& chunk, const Machine& machine) {
    const auto with = [&](int layers) {
        return predict(program, {.policy = Policy::npu_prefill, .npu_layers = layers}, chunk, machine);
    };
    Prediction best = with(1);
    for (int layers = 2; layers <= static_cast<int>(program.caches.size()); ++layers) {
        const Prediction next = with(layers);
        if (next.seconds < best.seconds) best = next;
    }
    return best;
}

Prediction best_placement(const graph::Program& program, const ChunkShape& chunk, const Machine& machine) {
    const Prediction candidates[] = {
        predict(program, {.policy = Policy::main_only}, chunk, machine),
        predict(program, {.policy = Policy::npu_attention}, chunk, machine),
        best_npu_prefill(program, chunk, machine),
    };
    return *std::min_element(std::begin(candidates), std::end(candidates),
                             [](const Prediction& a, const Prediction& b) { return a.seconds < b.seconds; });
}

}  // namespace tandem::plan
