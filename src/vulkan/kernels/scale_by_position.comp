// y = (1 + growth * ln(1 + floor(position / every))) * x; one workgroup per row.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t positions;
    uint64_t y;
    uint cols;
    uint every;
    float growth;
} p;

void main() {
    const uint row = gl_WorkGroupID.x;
    const float factor = 1.0 + p.growth * log(1.0 + float(uint(Ints(p.positions).at[row]) / p.every));
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += gl_WorkGroupSize.x) {
        FloatsOut(p.y).at[row * p.cols + i] = factor * Floats(p.x).at[row * p.cols + i];
    }
}
