// out[row] = scale * table[ids[row]]; one workgroup per row.
//! WEIGHT: all
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 0) const bool TILED = false;
#include "weights.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    Weight table;
    uint64_t ids;
    uint64_t out_rows;
    uint cols;
    float scale;
} p;

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Out { vec4 at[]; };

void main() {
    prepare_weights(p.table, gl_WorkGroupSize.x);
    const uint row = gl_WorkGroupID.x;
    const uint from = uint(Ints(p.ids).at[row]);
#if PLAIN
    if (p.cols % 4u != 0u) {
        for (uint i = gl_LocalInvocationID.x; i < p.cols; i += gl_WorkGroupSize.x) {
            FloatsOut(p.out_rows).at[row * p.cols + i] = p.scale * plain_value(p.table, from * p.cols + i);
        }
        return;
    }
#endif
    const uint quads = p.cols / 4u;
    for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) {
#if PLAIN
        const vec4 value = plain_values(p.table, from, i, quads);
#else
        const vec4 value = block_values(load_block(p.table, from, i / 8u, quads / 8u), i % 8u);
#endif
        Out(p.out_rows).at[row * quads + i] = p.scale * value;
    }
}
