// Turns the pairs of every head by their position; one invocation per element pair, or per untouched element.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rope.glsl"

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
