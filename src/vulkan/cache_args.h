// The part of the push constants that tells kernels where a position's keys and values lie (kernels/step.glsl).
#pragma once

#include "vulkan/kernel.h"
#include "vulkan/kernels/contracts.h"

namespace tandem::vulkan {

inline kernels::CacheShape cache_shape(const DeviceCache& cache, const StepState::Addresses& step, int layer) {
    const graph::CacheLayer& shape = cache.layer_shape(layer);
    return {.blocks = step.blocks[static_cast<size_t>(shape.group)],
            .stride = step.block_stride,
            .block_tokens = static_cast<uint32_t>(cache.shape().block_tokens),
            .kv_heads = static_cast<uint32_t>(shape.kv_heads),
            .head_dim = static_cast<uint32_t>(shape.head_dim)};
}

inline kernels::CacheShape cache_shape(const Args& args, int layer) {
    return cache_shape(*args.cache, args.step, layer);
}

// The constant cache_type of the kernels that touch the cache: the CACHE_ constants of kernels/step.glsl.
inline uint32_t cache_type(const DeviceCache& cache) {
    return cache.shape().dtype == DType::q8_0 ? 2 : cache.shape().dtype == DType::f16 ? 1 : 0;
}

}  // namespace tandem::vulkan
