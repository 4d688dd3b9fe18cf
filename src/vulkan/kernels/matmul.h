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

    // Of experts: rows are as many times more, sorted by expert (kernels/expert_rows.h), and y has all of them in their
    // old order. x has one for all of a row's experts, or one for each.
    struct Experts {
        uint32_t count = 0;
        uint32_t used = 0;
        bool shared_x = false;
        uint32_t stride = 0;  // rows of the weight from one expert to the next
        uint32_t up = 0;      // and from a gate's row to its up row
        VkDeviceAddress scales = 0;
        Access sorted;  // of expert_rows.h
    };
    std::optional<Experts> experts = {};
    bool y_tiles = false;  // y are Activations in tiles; for record_stream, a GLU without bias whose weight is bounded
};

uint32_t matmul_splits(const Tuning& tuning, const MatmulCall& call);

Status record_matmul(Recorder& recorder, const Tuning& tuning, const Capabilities& device, const MatmulCall& call);

// The tuning for products of experts with so many rows, as the device can run it.
Result<MatmulTuning> expert_tuning(const Tuning& tuning, const Capabilities& device, uint32_t rows, uint32_t used,
                                   uint32_t experts);

// The tuning as the device can run it: with fewer stages, less depth or whole matrices where it has to be.
Result<MatmulTuning> fit_matmul(MatmulTuning tuning, const Capabilities& device);

}  // namespace tandem::vulkan
