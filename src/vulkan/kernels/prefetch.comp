// Touches memory so that it lies in the GPU's cache when a later dispatch reads it: one load for each sector of 32 bytes.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t begin;
    uint64_t never;  // where a value goes that no memory holds: the loads must have a use
    uint sectors;
} p;

const uint PER_LANE = 4u;

void main() {
    uint all = 0u;
    [[unroll]] for (uint i = 0u; i < PER_LANE; ++i) {
        const uint sector = (gl_WorkGroupID.x * PER_LANE + i) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
        if (sector < p.sectors) all |= Uints(p.begin).at[8u * sector];
    }
    if (all == 0xffffffffu && p.sectors == 0u) IntsOut(p.never).at[0] = int(all);
}
