// y[r] = sum over a row's experts of weight * x[r][expert]; routing as op::Route makes it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t routing;
    uint64_t y;
    uint cols;
    uint used;
    uint count;  // elements of y
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    const uint row = i / p.cols, col = i % p.cols;
    float sum = 0.0;
    for (uint s = 0u; s < p.used; ++s) {
        sum += Floats(p.routing).at[(row * 2u + 1u) * p.used + s] * Floats(p.x).at[(row * p.used + s) * p.cols + col];
    }
    FloatsOut(p.y).at[i] = sum;
}
