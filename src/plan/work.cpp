#include "plan/work.h"

namespace tandem::plan {

Work work_of(const graph::Program& program, const device::Batch& batch, DType kv_dtype) {
    graph::StepShape step{.extents = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)},
                          .kv_dtype = kv_dtype};
    for (const device::SequenceRows& sequence : batch.sequences)
        step.sequences.push_back({.past = sequence.past, .rows = sequence.rows});
    Work work;
    std::vector<graph::TensorType> types;
    for (const graph::Node& node : program.nodes) {
        types.clear();
        for (const graph::ValueId input : node.inputs) types.push_back(program.value(input).type);
        work += node.op.work(types, step);
    }
    return work;
}

}  // namespace tandem::plan
