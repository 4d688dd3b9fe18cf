// Designs that work on each row, or each element, by itself: the rows go to the cores in turn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "npu/design.h"

namespace tandem::npu {

// `rows` is rounded up so that all cores have as many: the buffers of the arguments have this many rows.
struct RowDesign {
    Design design;
    int64_t rows = 0;
};

struct RmsNormShape {
    int64_t rows = 0;
    int64_t cols = 0;  // a multiple of 16, at most 5376
    float eps = 0;
    std::string array = "npu1";
};
// Arguments: x f32 [rows][cols], weight f32 [cols], y f32 [rows][cols]. On all cores.
Result<RowDesign> rms_norm_design(const RmsNormShape& shape);

struct SoftmaxShape {
    int64_t rows = 0;
    int64_t cols = 0;  // a multiple of 16
    std::string array = "npu1";
};
// Arguments: x and y = softmax(x), f32 [rows][cols]. On all cores.
Result<RowDesign> softmax_design(const SoftmaxShape& shape);

// A mem tile has six channels out: with two operands for each row there are two cores in a column.

struct RopeShape {
    int64_t tokens = 0;
    int64_t heads = 0;
    int64_t head_dim = 0;  // a multiple of 32
    int32_t layout = 0;    // of rope_f32
    std::string array = "npu1";
};
// Arguments: x f32 [rows][heads][head_dim], cos_sin f32 [rows][head_dim] (cosines, then sines), y like x.
Result<RowDesign> rope_design(const RopeShape& shape);

struct ElementwiseShape {
    int64_t count = 0;  // of elements, however they are arranged: here a row is one
    std::string array = "npu1";
};
// Arguments: a, b and y = a + b, f32.
Result<RowDesign> add_design(const ElementwiseShape& shape);
// Arguments: gate, up and y = activation(gate) * up, f32; `activation` is glu_f32's.
Result<RowDesign> glu_design(const ElementwiseShape& shape, int32_t activation);
// The activations of glu_f32 in the order of their numbers, as designs are named by them.
inline constexpr std::string_view kGluNames[] = {"silu_glu_f32", "gelu_glu_f32", "gelu_erf_glu_f32"};

struct QuantizeShape {
    int64_t rows = 0;
    int64_t cols = 0;  // a multiple of 16
    std::string array = "npu1";
};
// Arguments: x f32 [rows][cols], q i8 [rows][cols], scale f32 [rows].
Result<RowDesign> quantize_design(const QuantizeShape& shape);

}  // namespace tandem::npu
