// Multiplies matrices that stay in registers again and again: how fast the matrix units are when nothing holds them up.
// Each subgroup has A x B products under way, as many as the kernels that do real work.
//! MATRIX: khr
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint SUBGROUP = 32u;
layout(constant_id = 2) const uint FRAGMENT_COLS = 16u;
layout(constant_id = 3) const uint FRAGMENT_ROWS = 16u;
layout(constant_id = 4) const uint FRAGMENT_DEPTH = 16u;

layout(push_constant, scalar) uniform Params {
    uint64_t y;  // never written
    uint iterations;
} p;

const uint STRIDE = 3u;  // a row of 16 f16 and 16 bytes between rows
const uint WORDS = 64u * (LANES / SUBGROUP);  // the sums of a fragment for each subgroup
shared uvec4 memory[WORDS];

#include "fragments.glsl"

const uint A = 4u;
const uint B = 2u;

void main() {
    for (uint i = gl_LocalInvocationIndex; i < WORDS; i += LANES) memory[i] = uvec4(0x00010001u * (i & 3u));
    barrier();
    WeightFragment weights[A];
    ActivationFragment activations[B];
    Sums sums[A * B];
    [[unroll]] for (uint i = 0u; i < A; ++i) LOAD_WEIGHTS(weights[i], i, STRIDE);
    [[unroll]] for (uint i = 0u; i < B; ++i) LOAD_ACTIVATIONS(activations[i], i, STRIDE);
    [[unroll]] for (uint i = 0u; i < A * B; ++i) CLEAR(sums[i]);
    for (uint iteration = 0u; iteration < p.iterations; ++iteration) {
        [[unroll]] for (uint i = 0u; i < A; ++i) {
            [[unroll]] for (uint j = 0u; j < B; ++j) MULTIPLY_ADD(sums[i * B + j], weights[i], activations[j]);
        }
    }
    // Never so, but the compiler cannot know: the products have to be made.
    bool found = false;
    [[unroll]] for (uint i = 0u; i < A * B; ++i) {
        barrier();
        STORE_SUMS(sums[i], 64u * WARP, 4u);
        barrier();
        found = found || memory[gl_LocalInvocationIndex].x == 0x5eed5eedu;
    }
    if (found) IntsOut(p.y).at[0] = 1;
}
