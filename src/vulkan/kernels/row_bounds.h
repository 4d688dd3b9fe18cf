// How large the products with a matrix can get: the largest sums of magnitudes of its rows.
#pragma once

#include "base/dtype.h"
#include "vulkan/recorder.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

struct RowBoundsCall {
    DType dtype = DType::q4_0;  // any type of weights but f32
    DeviceWeight weight;        // [rows][cols]
    uint32_t rows = 0;          // even
    uint32_t cols = 0;          // a multiple of 32
    Access bounds;              // f32[2], zeros before: of the first half of the rows, and of the other
};

Status record_row_bounds(Recorder& recorder, const RowBoundsCall& call);

}  // namespace tandem::vulkan
