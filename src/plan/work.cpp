#include "plan/work.h"

#include <algorithm>

#include "graph/ops.h"

namespace tandem::plan {

namespace {

Work of_linear(const graph::Program& program, const graph::Node& node, const graph::Extents& extents) {
    const graph::TensorType& weight = program.value(node.inputs[0]).type;
    const int64_t rows = program.value(node.output).type.rows(extents);
    if (rows == 0) return {};
    const double elements = static_cast<double>(weight.rows({})) * static_cast<double>(weight.cols());
    return {.bytes = static_cast<double>(weight.size_bytes({})), .flops = 2 * elements * static_cast<double>(rows)};
}

Work of_attention(const op::Attention& op, const device::Batch& batch, DType kv_dtype) {
    const double kv_bytes = 2.0 * static_cast<double>(row_bytes(kv_dtype, int64_t{op.kv_heads} * op.head_dim));
    Work work;
    for (const device::SequenceRows& sequence : batch.sequences) {
        double pairs = 0;  // of a row and a position it sees
        for (int32_t row = 0; row < sequence.rows; ++row) {
            const int seen = sequence.past + row + 1;
            pairs += op.window == 0 ? seen : std::min(op.window, seen);
        }
        const int end = sequence.past + sequence.rows;
        work.bytes += kv_bytes * (op.window == 0 ? end : std::min(op.window + sequence.rows - 1, end));
        work.flops += 4 * pairs * op.heads * op.head_dim;
    }
    return work;
}

}  // namespace

Work work_of(const graph::Program& program, const device::Batch& batch, DType kv_dtype) {
    const graph::Extents extents{.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
    Work work;
    for (const graph::Node& node : program.nodes) {
        Work part;
        if (node.op.as<op::Linear>() != nullptr) part = of_linear(program, node, extents);
        if (const auto* attention = node.op.as<op::Attention>()) part = of_attention(*attention, batch, kv_dtype);
        work.bytes += part.bytes;
        work.flops += part.flops;
    }
    return work;
}

}  // namespace tandem::plan
