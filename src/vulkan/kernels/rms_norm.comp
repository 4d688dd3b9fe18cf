// out = x / sqrt(mean(x^2) + eps) * weight over groups of `width`, the weight left out where there is none; one workgroup
// per group.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t weight;  // 0: none
    uint64_t y;
    uint width;
    float eps;
} p;

shared float partial[256];

void main() {
    const uint lane = gl_LocalInvocationID.x;
    const uint first = gl_WorkGroupID.x * p.width;
    float sum = 0.0;
    for (uint i = lane; i < p.width; i += 256u) {
        const float x = Floats(p.x).at[first + i];
        sum += x * x;
    }
    partial[lane] = sum;
    barrier();
    for (uint half_size = 128u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) partial[lane] += partial[lane + half_size];
        barrier();
    }
    const float inverse = 1.0 / sqrt(partial[0] / float(p.width) + p.eps);
    for (uint i = lane; i < p.width; i += 256u) {
        const float weight = p.weight != 0ul ? Floats(p.weight).at[i] : 1.0;
        FloatsOut(p.y).at[first + i] = Floats(p.x).at[first + i] * inverse * weight;
    }
}
