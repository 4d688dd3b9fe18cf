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

layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer UintsOut { uint at[]; };

void put(uint64_t base, uint element, float value) {
    if (CACHE_TYPE == CACHE_F16) {
        HalvesOut(base).at[element] = float16_t(value);
    } else {
        FloatsOut(base).at[element] = value;
    }
}

// 32 elements with one scale.
void put_q8(uint64_t base, uint element, uint64_t from, uint at) {
    float largest = 0.0;
    for (uint i = 0u; i < 32u; ++i) largest = max(largest, abs(Floats(from).at[at + i]));
    const float scale = q8_scale_of(largest);
    HalvesOut(base).at[q8_scale(p.shape, element)] = float16_t(scale);
    for (uint i = 0u; i < 32u; i += 4u) {
        const vec4 x = vec4(Floats(from).at[at + i], Floats(from).at[at + i + 1u], Floats(from).at[at + i + 2u],
                            Floats(from).at[at + i + 3u]);
        UintsOut(base).at[(q8_byte(p.shape, element) + i) / 4u] = q8_pack(x, scale);
    }
}

void main() {
    const uint row = gl_WorkGroupID.x;
    if (row >= StepHeader(p.step).rows) return;  // a bucket has more rows than the step
    const uint cols = p.shape.kv_heads * p.shape.head_dim;
    const uint position = uint(Ints(p.positions).at[row]);
    const uint sequence = uint(Ints(p.sequence_of_row).at[row]);
    const uint together = CACHE_TYPE == CACHE_Q8 ? 32u : 1u;
    for (uint i = gl_LocalInvocationID.x * together; i < cols; i += gl_WorkGroupSize.x * together) {
        const uint element = cache_element(p.shape, sequence, position, i / p.shape.head_dim) + i % p.shape.head_dim;
        if (CACHE_TYPE == CACHE_Q8) {
            put_q8(p.cache_k, element, p.k, row * cols + i);
            put_q8(p.cache_v, element, p.v, row * cols + i);
            continue;
        }
        put(p.cache_k, element, Floats(p.k).at[row * cols + i]);
        put(p.cache_v, element, Floats(p.v).at[row * cols + i]);
    }
}
