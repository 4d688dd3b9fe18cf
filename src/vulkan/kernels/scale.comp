// y = factor * x + bias, element by element; the bias, one for each column, may be left out.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t bias;  // 0: none
    uint64_t y;
    uint count;
    uint cols;
    float factor;
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    const float bias = p.bias != 0 ? Floats(p.bias).at[i % p.cols] : 0.0;
    FloatsOut(p.y).at[i] = p.factor * Floats(p.x).at[i] + bias;
}
