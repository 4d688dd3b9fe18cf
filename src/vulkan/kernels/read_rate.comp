// Reads all of up to 6 buffers once, 16 bytes at a time: how fast the memory is. A fixed number of workgroups takes
// tiles in turn, which on large GPUs is much faster than a workgroup for each tile.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t buffers[6];
    uint64_t sum;
    uint tiles;             // of 4 loads of each invocation
    uint tiles_per_buffer;
} p;

const uint kUnroll = 4;

void main() {
    uvec4 sum = uvec4(0);
    for (uint tile = gl_WorkGroupID.x; tile < p.tiles; tile += gl_NumWorkGroups.x) {
        const uint buffer_index = tile / p.tiles_per_buffer;
        const uint first = (tile - buffer_index * p.tiles_per_buffer) * 256 * kUnroll + gl_LocalInvocationIndex;
        Uint4s from = Uint4s(p.buffers[buffer_index]);
        uvec4 loaded[kUnroll];
        [[unroll]] for (uint i = 0; i < kUnroll; ++i) loaded[i] = from.at[first + i * 256];
        [[unroll]] for (uint i = 0; i < kUnroll; ++i) sum += loaded[i];
    }
    // Never so, but the compiler cannot know: the loads have to happen.
    if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x5eed5eedu) IntsOut(p.sum).at[0] = 1;
}
