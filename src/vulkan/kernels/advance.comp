// Gets the step's state ready for the next: each row's token becomes the one drawn, one position on, with the next draw.
// What was drawn goes to the host as well, after the tokens of the steps before.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 64) in;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer StepHeader {
    uint rows;
    uint outputs;
    uint tiles;
    uint single_rows;
    uint step;
};
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Draws { uint64_t at[]; };

layout(push_constant, scalar) uniform Params {
    uint64_t header;
    uint64_t next;
    uint64_t tokens;
    uint64_t positions;
    uint64_t sampling;
    uint64_t drawn;
    uint sampling_stride;  // in 64 bits
    uint draw_at;          // in 64 bits
} p;

void main() {
    StepHeader header = StepHeader(p.header);
    const uint outputs = header.outputs, step = header.step;
    for (uint i = gl_LocalInvocationID.x; i < outputs; i += gl_WorkGroupSize.x) {
        const int token = Ints(p.next).at[i];
        IntsOut(p.tokens).at[i] = token;
        IntsOut(p.positions).at[i] += 1;
        Draws(p.sampling).at[i * p.sampling_stride + p.draw_at] += 1UL;
        IntsOut(p.drawn).at[step * outputs + i] = token;
    }
    barrier();  // all have read the step
    if (gl_LocalInvocationID.x == 0u) header.step = step + 1u;
}
