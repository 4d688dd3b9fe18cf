// y[r] = x[rows[r]]; one workgroup per row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t rows;
    uint64_t y;
    uint cols;
} p;

void main() {
    const uint row = gl_WorkGroupID.x;
    const uint from = uint(Ints(p.rows).at[row]) * p.cols;
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += gl_WorkGroupSize.x) {
        FloatsOut(p.y).at[row * p.cols + i] = Floats(p.x).at[from + i];
    }
}
