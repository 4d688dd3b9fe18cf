// Puts the keys and values of every row into its sequence's cache; one workgroup per row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "step.glsl"

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Params {
    uint64_t k;
    uint64_t v;
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t cache_k;
    uint64_t cache_v;
    CacheShape shape;
} p;

void put(uint64_t base, uint element, float value) {
    if (CACHE_F16) {
        HalvesOut(base).at[element] = float16_t(value);
    } else {
        FloatsOut(base).at[element] = value;
    }
}

void main() {
    const uint row = gl_WorkGroupID.x;
    if (row >= StepHeader(p.step).rows) return;  // a bucket has more rows than the step
    const uint cols = p.shape.kv_heads * p.shape.head_dim;
    const uint position = uint(Ints(p.positions).at[row]);
    const uint sequence = uint(Ints(p.sequence_of_row).at[row]);
    for (uint i = gl_LocalInvocationID.x; i < cols; i += gl_WorkGroupSize.x) {
        const uint element = cache_element(p.shape, sequence, position, i / p.shape.head_dim) + i % p.shape.head_dim;
        put(p.cache_k, element, Floats(p.k).at[row * cols + i]);
        put(p.cache_v, element, Floats(p.v).at[row * cols + i]);
    }
}
