// Products of a weight and 2 to 4096 rows of f16 activations, by cooperative matrices where the device has them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/dtype.h"
#include "graph/ops.h"
#include "vulkan/recorder.h"
#include "vulkan/tuning.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

// Narrow products of few rows are split along their inputs to fill the device; whoever reads y adds the splits up.
constexpr uint32_t kMaxMatmulSplits = 8;

struct MatmulCall {
    DType dtype = DType::q4_0;  // any type of weights but f32
    DeviceWeight weight;        // [outputs][inputs]
    uint32_t outputs = 0;
    uint32_t inputs = 0;  // a multiple of 32
    uint32_t rows = 0;
    VkDeviceAddress x = 0;              // Activations in f16, of rows x inputs
    VkDeviceAddress bias = 0;           // f32 [outputs], or 0 for none; goes into the first split
    std::optional<op::Activation> glu;  // weight rows [0, outputs / 2) are the gate, the others up
    uint32_t max_splits = kMaxMatmulSplits;
    VkDeviceAddress y = 0;  // f32 [splits][rows][outputs], with a GLU [rows][outputs / 2]
    bool y_tiles = false;   // y are Activations in tiles; for record_stream, a GLU without bias whose weight is bounded
};

uint32_t matmul_splits(const Tuning& tuning, const MatmulCall& call);

Status record_matmul(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call);

// The tuning as the device can run it: with fewer stages, less depth or whole matrices where it has to be.
Result<MatmulTuning> fit_matmul(MatmulTuning tuning, const Capabilities& device);

}  // namespace tandem::vulkan
