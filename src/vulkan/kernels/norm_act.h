// The rows between two products: residual, norms and the activations of the next product in one dispatch.
#pragma once

#include <optional>

#include "vulkan/activations.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

// A norm's weight, f32 [cols], and epsilon.
struct NormParams {
    VkDeviceAddress weight = 0;
    float eps = 0;
};

struct NormActCall {
    Access x;  // f32 [rows][cols]
    uint32_t rows = 0;
    uint32_t cols = 0;  // a multiple of 32

    struct Delta {
        Access partials;  // f32 [splits][rows][cols]
        uint32_t splits = 1;
        std::optional<NormParams> norm = {};
        float scale = 1.0F;
        float sum_scale = 1.0F;
        Access sum;  // where sum_scale * (x + scale * norm(delta)) goes, f32 [rows][cols]
    };
    std::optional<Delta> delta = {};

    std::optional<NormParams> norm = {};
    std::optional<ActivationFormat> format = {};  // none: only the sum is wanted
    Access y;
};

Status record_norm_act(Recorder& rec, const Capabilities& capabilities, const NormActCall& call);

}  // namespace tandem::vulkan
