// y[r] = x[r][first .. first + count); one workgroup per row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t y;
    uint cols;
    uint first;
    uint count;
} p;

void main() {
    const uint row = gl_WorkGroupID.x;
    for (uint i = gl_LocalInvocationID.x; i < p.count; i += gl_WorkGroupSize.x) {
        FloatsOut(p.y).at[row * p.count + i] = Floats(p.x).at[row * p.cols + p.first + i];
    }
}
