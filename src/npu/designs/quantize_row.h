// quantize_row: a row of floats to int8.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::npu {

// By its largest magnitude / 127, half to even; gives that scale. Of a row with something that is no number the scale
// is none either, so all that is made of it becomes none.
float quantize_row(std::span<const float> values, std::span<int8_t> row);

}  // namespace tandem::npu
