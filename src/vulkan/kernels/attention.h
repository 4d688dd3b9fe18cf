// Attention over a cache of f16 or q8_0: q as kernels/heads.h leaves it in, Activations for the next product out.
#pragma once

#include "graph/ops.h"
#include "vulkan/activations.h"
#include "vulkan/cache.h"
#include "vulkan/kernels/heads.h"
#include "vulkan/recorder.h"
#include "vulkan/step_state.h"
#include "vulkan/tuning.h"

namespace tandem::vulkan {

struct AttentionCall {
    VkDeviceAddress q = 0;  // f16 [rows][heads * head_dim]
    uint32_t rows = 0;      // of the bucket
    const op::Attention& op;
    const DeviceCache& cache;
    const StepState::Addresses& step;
    VkDeviceAddress scratch =
        0;  // attention_scratch_bytes(), zero before the first use; dispatches and steps in turn may share it
    VkDeviceAddress y = 0;  // Activations [rows][heads * head_dim]
    ActivationFormat format = ActivationFormat::f32;
    VkDeviceAddress sinks = 0;  // f32 [heads]; 0: none
    bool one_row_each = false;  // every sequence of the step has a single row
    // Where attention_makes_heads(): what to make in place of reading q, and heads_block() of it on the device.
    const HeadsCall* heads = nullptr;
    VkDeviceAddress heads_block = 0;
};

// Whether the dispatch of single rows can make their heads, for which it needs lanes and shared memory.
bool attention_makes_heads(const AttentionTuning& tuning, const Capabilities& device, const op::Attention& op);

// Heads of 32, 64, ... 256, 384 or 512 elements, at most eight to a kv head, in a cache of f16 or q8_0; all else is for
// the op's own kernel, as are heads for which the device has too little shared memory.
bool attention_supported(const AttentionTuning& tuning, const Capabilities& device, const op::Attention& op,
                         const DeviceCache& cache);
// Enough for so many rows or fewer.
uint64_t attention_scratch_bytes(const AttentionTuning& tuning, const op::Attention& op, uint32_t rows);
Status record_attention(Recorder& recorder, const AttentionTuning& tuning, const Capabilities& device,
                        const AttentionCall& call);

}  // namespace tandem::vulkan
