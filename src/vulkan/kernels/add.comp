// y = a + b, element by element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t a;
    uint64_t b;
    uint64_t y;
    uint count;
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i < p.count) FloatsOut(p.y).at[i] = Floats(p.a).at[i] + Floats(p.b).at[i];
}
