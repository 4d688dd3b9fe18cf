// Products of a quantised matrix and one row, by integer dot products over int8 activations.
#pragma once

#include <optional>

#include "graph/ops.h"
#include "vulkan/recorder.h"
#include "vulkan/tuning.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

struct GemvCall {
    DType dtype = DType::q4_0;
    DeviceWeight weight;   // [outputs][inputs]; with glu [2 * outputs][inputs], the gate's rows and then the up's
    uint32_t outputs = 0;  // with glu a multiple of 32
    uint32_t inputs = 0;   // a multiple of 32
    Access x;              // q8 activations
    VkDeviceAddress bias = 0;
    std::optional<op::Activation> glu = {};
    Access y;  // f32 [outputs], or with glu q8 activations

    // Of the experts that a row goes to: with glu each one's gate and up, which gives as many rows of y; without, x has
    // as many rows, and y is the weighted sum of what they are multiplied to.
    struct Experts {
        Access routing;  // f32 [2][used]
        uint32_t used = 0;
        uint32_t stride = 0;  // rows of the weight from one expert to the next
        uint32_t up = 0;      // and from a gate's row to its up row
        VkDeviceAddress scales = 0;
    };
    std::optional<Experts> experts = {};
};

// What the tuning has for a matrix of so many rows.
const GemvTuning& gemv_tuning(const Tuning& tuning, uint32_t outputs, uint32_t inputs, bool gated);

Status record_gemv(Recorder& rec, const GemvTuning& tuning, const Capabilities& capabilities, const GemvCall& call);

}  // namespace tandem::vulkan
