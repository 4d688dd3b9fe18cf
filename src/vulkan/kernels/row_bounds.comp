// The largest sum of magnitudes of a row of a matrix, for each half of its rows: no product of a row and inputs of at
// most 1 is larger. A workgroup takes ROWS rows.
//! WEIGHT: matrices
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const bool TILED = false;

#include "weights.glsl"

layout(push_constant, scalar) uniform Params {
    Weight weight;
    uint64_t bounds;  // f32[2], zeros before; as their bits compare like numbers, which none is below zero
    uint rows;        // even
    uint cols;        // a multiple of 32
} p;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Bounds { uint at[]; };

const uint LANES = 64u;
const uint ROWS = 16u;

shared float sums[LANES / 4u];  // a subgroup has at least four lanes

float block_sum(uint row, uint block) {
    vec4 sum = vec4(0.0);
#if PLAIN
    [[unroll]] for (uint i = 0u; i < 8u; ++i) sum += abs(plain_values(p.weight, row, 8u * block + i, p.cols / 4u));
#else
    const Block b = load_block(p.weight, row, block, p.cols / 32u);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) sum += abs(block_values(b, i));
#endif
    return sum.x + sum.y + sum.z + sum.w;
}

void main() {
    prepare_weights(p.weight, LANES);
    const uint lane = gl_LocalInvocationID.x;
    for (uint i = 0u; i < ROWS; ++i) {
        const uint row = min(gl_WorkGroupID.x * ROWS + i, p.rows - 1u);
        float own = 0.0;
        for (uint block = lane; block < p.cols / 32u; block += LANES) own += block_sum(row, block);
        own = subgroupAdd(own);
        if (subgroupElect()) sums[gl_SubgroupID] = own;
        barrier();
        if (lane == 0u) {
            float sum = 0.0;
            for (uint s = 0u; s < gl_NumSubgroups; ++s) sum += sums[s];
            atomicMax(Bounds(p.bounds).at[row / (p.rows / 2u)], floatBitsToUint(sum));
        }
        barrier();
    }
}
