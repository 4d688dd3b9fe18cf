// What lies between the products of q, k and v and attention: norms, rope and the write into the cache, at once. Where
// every sequence has a single row, attention does it itself.
#pragma once

#include <vector>

#include "graph/ops.h"
#include "vulkan/cache.h"
#include "vulkan/kernels/contracts.h"
#include "vulkan/recorder.h"
#include "vulkan/step_state.h"

namespace tandem::vulkan {

struct HeadsCall {
    VkDeviceAddress qkv = 0;  // f32 [splits][rows][(heads + kv_sets * kv_heads) * head_dim]: q, k, v
    // 2: all three; 1: v is apart, or, if it is not, the same as k; 0: only q is made, k and v are another layer's.
    uint32_t kv_sets = 2;
    uint32_t splits = 1;
    VkDeviceAddress v = 0;  // f32 [v_splits][rows][kv_heads * head_dim]
    uint32_t v_splits = 0;  // 0: v is not apart
    uint32_t rows = 0;      // of the bucket
    uint32_t heads = 0;
    VkDeviceAddress q_norm = 0;  // f32 [head_dim]; 0: none
    VkDeviceAddress k_norm = 0;
    float eps = 0.0F;
    bool norms_v = false;  // as q and k, without a weight
    op::ScaleByPosition q_scale = {};
    const op::Rope* rope = nullptr;  // of q and k; null: none
    VkDeviceAddress turns = 0;       // turns_of(rope->inv_freq)
    const DeviceCache& cache;        // of f16 or q8_0
    int layer = 0;
    const StepState::Addresses& step;
    VkDeviceAddress q = 0;  // f16 [rows][heads * head_dim]
};

// Heads of a multiple of four elements, in a cache of f16 or q8_0.
bool heads_supported(const DeviceCache& cache, int layer);
// What attention takes to make them by itself (attention_makes_heads): a block on the device, and how they are turned.
kernels::HeadsBlock heads_block(const HeadsCall& call);
struct HeadsTurns {
    uint32_t pairs = 0;
    bool interleaved = false;
};
HeadsTurns heads_turns(const HeadsCall& call);
// What it reads.
std::vector<Access> heads_reads(const HeadsCall& call);

Status record_heads(Recorder& recorder, const Capabilities& capabilities, const HeadsCall& call);

}  // namespace tandem::vulkan
