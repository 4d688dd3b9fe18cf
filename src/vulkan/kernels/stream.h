// Products of a weight and 2 rows or more, by warps that stream the weights into their registers: for activations in
// tiles, on devices whose cooperative matrices are laid out as kernels/lane_matrix.glsl knows (vulkan/lane_layout.h).
#pragma once

#include "vulkan/kernels/matmul.h"

namespace tandem::vulkan {

// As matmul_splits() and record_matmul(), but for the format of the activations. Inputs are a multiple of
// kMatrixInputs.
uint32_t stream_splits(const Tuning& tuning, const MatmulCall& call);
Status record_stream(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call);

}  // namespace tandem::vulkan
