// y = x * sigmoid(gate), with a gate for every `width` elements.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t gate;
    uint64_t y;
    uint width;
    uint count;
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    FloatsOut(p.y).at[i] = Floats(p.x).at[i] / (1.0 + exp(-Floats(p.gate).at[i / p.width]));
}
