// y = cap * tanh(x / cap), element by element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t y;
    uint count;
    float cap;
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i < p.count) FloatsOut(p.y).at[i] = p.cap * safe_tanh(Floats(p.x).at[i] / p.cap);
}
