// Turns the pairs of every head by their position; one invocation per element pair, or per untouched element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t positions;
    uint64_t turns;  // of each pair at position 1
    uint64_t y;
    uint cols;
    uint head_dim;
    uint pairs;  // of a head that are turned
    uint interleaved;
    float magnitude;
} p;

// (cos, sin) of position * turn, where `turn` counts whole turns in 2^64ths. The product drops the whole turns by itself and
// is exact for any position; what is left lies in [-1/8, 1/8] turns of a quadrant, where a polynomial is.
vec2 cos_sin(int position, uint64_t turn) {
    const uint phase = uint((uint64_t(position) * turn) >> 32);
    const uint quadrant = (phase + 0x20000000u) >> 30;
    const float r = float(int(phase - (quadrant << 30))) * 1.4629180792671596e-9;  // 2 pi / 2^32
    const float r2 = r * r;
    const float s = r + r * r2 * (-1.6666654611e-1 + r2 * (8.3321608736e-3 - r2 * 1.9515295891e-4));
    const float c =
        1.0 - 0.5 * r2 + r2 * r2 * (4.166664568298827e-2 + r2 * (-1.388731625493765e-3 + r2 * 2.443315711809948e-5));
    const vec2 turned = (quadrant & 1u) == 0u ? vec2(c, s) : vec2(-s, c);
    return (quadrant & 2u) == 0u ? turned : -turned;
}

layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Turns { uint64_t at[]; };

void main() {
    const uint per_head = p.head_dim - p.pairs;  // work items: pairs, then the elements that stay
    const uint heads = p.cols / p.head_dim;
    const uint item = gl_GlobalInvocationID.x;
    if (item >= heads * per_head) return;
    const uint row = gl_WorkGroupID.y;
    const uint i = item % per_head;
    const uint head = row * p.cols + item / per_head * p.head_dim;
    if (i >= p.pairs) {
        const uint at = head + p.pairs + i;
        FloatsOut(p.y).at[at] = Floats(p.x).at[at];
        return;
    }
    const uint a = head + (p.interleaved != 0u ? 2u * i : i);
    const uint b = head + (p.interleaved != 0u ? 2u * i + 1u : i + p.pairs);
    const vec2 turn = p.magnitude * cos_sin(Ints(p.positions).at[row], Turns(p.turns).at[i]);
    const float xa = Floats(p.x).at[a], xb = Floats(p.x).at[b];
    FloatsOut(p.y).at[a] = xa * turn.x - xb * turn.y;
    FloatsOut(p.y).at[b] = xb * turn.x + xa * turn.y;
}
