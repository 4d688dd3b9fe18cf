// y = activation(gate) * up, element by element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint ACTIVATION = 0u;  // the enum op::Activation
layout(push_constant, scalar) uniform Params {
    uint64_t gate;
    uint64_t up;
    uint64_t y;
    uint count;
} p;

void main() {
    const uint i = gl_GlobalInvocationID.x;
    if (i >= p.count) return;
    FloatsOut(p.y).at[i] = gated(ACTIVATION, Floats(p.gate).at[i], Floats(p.up).at[i]);
}
