// Experts: the feed-forward part of a mixture as a stage, by the kernels that the number of rows calls for.
#pragma once

#include "graph/ops.h"
#include "vulkan/stage.h"

namespace tandem::vulkan {

struct ExpertsStage {
    uint32_t count = 0;
    uint32_t used = 0;  // of a row
    uint32_t dim = 0;
    uint32_t ffn_dim = 0;
    op::Activation activation = op::Activation::silu;
    DType gate_dtype = DType::f32;
    DType down_dtype = DType::f32;
    bool gate_up_together = false;  // in one weight, an expert's gate before its up
    WeightIndex gate_up = kNone;
    WeightIndex gate_up_bias = kNone;
    WeightIndex down = kNone;
    WeightIndex down_bias = kNone;
    WeightIndex down_scale = kNone;
    ValueIndex x = kNone;        // activations
    ValueIndex routing = kNone;  // f32 [rows][2 * used]
    ValueIndex sorted = kNone;   // ExpertRows
    ValueIndex wide = kNone;     // f32 [rows * used][ffn_dim]
    ValueIndex made = kNone;     // activations of that
    ValueIndex results = kNone;  // f32 [rows * used][dim]
    ValueIndex y = kNone;        // f32 [rows][dim]

    // Bytes of the values but for routing and y, of so many rows.
    uint64_t x_bytes(uint32_t rows) const;
    uint64_t sorted_bytes(const Tuning& tuning, const Capabilities& device, uint32_t rows) const;
    uint64_t wide_bytes(uint32_t rows) const;
    uint64_t made_bytes(uint32_t rows) const;
    uint64_t results_bytes(uint32_t rows) const;

    // How rows of the stage's input are read.
    ActivationFormat format(uint32_t rows) const {
        return by_gemv(rows) ? ActivationFormat::q8 : ActivationFormat::f16;
    }

    Status record(Recorder& rec, uint32_t rows, const StageArgs& args) const;

  private:
    // One row of blocks; all else is sorted and goes by matrices.
    bool by_gemv(uint32_t rows) const { return rows == 1 && is_quantized(gate_dtype) && is_quantized(down_dtype); }
    Status record_row(Recorder& rec, const StageArgs& args) const;
    Status record_rows(Recorder& rec, uint32_t rows, const StageArgs& args) const;
    // Rows of the weight of gate and up from one expert to the next, and from a gate's row to its up row.
    uint32_t gate_stride() const { return gate_up_together ? 2 * ffn_dim : ffn_dim; }
    uint32_t up_distance() const { return gate_up_together ? ffn_dim : count * ffn_dim; }
};

}  // namespace tandem::vulkan
