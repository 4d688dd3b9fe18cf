// Begins a chain (kernels/chain.glsl): its counters are zero.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t counters;
    uint64_t broken;
    uint count;
} p;

layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Counters {
    uint64_t broken;
    uint at[];
};

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i == 0u) Counters(p.counters).broken = p.broken;
    if (i < p.count) Counters(p.counters).at[i] = 0u;
}
