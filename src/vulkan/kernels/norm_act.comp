// From a row of the residual stream to the activations of the next product, one workgroup per row:
//   x' = x + post_norm(delta), y = activations(norm(x'))
// Each part may be left out; delta is the sum of the partial results of a product.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "activations.glsl"
#include "chain.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint QUADS = 1u;       // of a lane
layout(constant_id = 2) const bool ADDS = false;     // delta is there, and x' is stored
layout(constant_id = 3) const bool POST = false;     // delta is normed
layout(constant_id = 4) const bool NORM = true;
layout(constant_id = 5) const uint FORMAT = 0u;      // of y, as ActivationFormat; 4: no y

layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t delta;  // f32 [splits][rows][cols]
    uint64_t post_weight;
    uint64_t sum;  // x'
    uint64_t weight;
    uint64_t y;
    uint rows;
    uint cols;
    uint splits;
    float post_eps;
    float eps;
    Chain chain;
} p;

shared float partial[LANES / 4u];  // a subgroup has at least four lanes

float sum_over_lanes(float value) {
    const float mine = subgroupAdd(value);
    if (subgroupElect()) partial[gl_SubgroupID] = mine;
    barrier();
    float sum = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; ++i) sum += partial[i];
    barrier();
    return sum;
}

float largest_over_lanes(float value) {
    const float mine = subgroupMax(value);
    if (subgroupElect()) partial[gl_SubgroupID] = mine;
    barrier();
    float largest = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; ++i) largest = max(largest, partial[i]);
    barrier();
    return largest;
}

void run_row() {
    const uint row = gl_WorkGroupID.x;
    const uint lane = gl_LocalInvocationID.x;
    const uint quads = p.cols / 4u;
    vec4 x[QUADS];
    vec4 delta[QUADS];
    vec4 post_weight[QUADS];
    vec4 weight[QUADS];
    // All loads are under way before the first sum waits for them.
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        const uint quad = min(i * LANES + lane, quads - 1u);
        if (POST) post_weight[i] = Float4s(p.post_weight).at[quad];
        if (NORM) weight[i] = Float4s(p.weight).at[quad];
    }
    const uint64_t ready = await_chain(p.chain);
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        const uint quad = min(i * LANES + lane, quads - 1u);
        x[i] = MadeFloat4s(p.x + ready).at[row * quads + quad];
        if (ADDS) delta[i] = MadeFloat4s(p.delta + ready).at[row * quads + quad];
    }
    if (ADDS) {
        for (uint split = 1u; split < p.splits; ++split) {
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
                const uint quad = min(i * LANES + lane, quads - 1u);
                delta[i] += MadeFloat4s(p.delta + ready).at[(split * p.rows + row) * quads + quad];
            }
        }
        if (POST) {
            float squares = 0.0;
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
                if (i * LANES + lane < quads) squares += dot(delta[i], delta[i]);
            }
            const float scale = inversesqrt(sum_over_lanes(squares) / float(p.cols) + p.post_eps);
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) delta[i] *= scale * post_weight[i];
        }
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            x[i] += delta[i];
            const uint quad = i * LANES + lane;
            if (quad < quads) Float4sOut(p.sum).at[row * quads + quad] = x[i];
        }
    }
    if (FORMAT == 4u) return;
    if (NORM) {
        float squares = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            if (i * LANES + lane < quads) squares += dot(x[i], x[i]);
        }
        const float scale = inversesqrt(sum_over_lanes(squares) / float(p.cols) + p.eps);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) x[i] *= scale * weight[i];
    }
    float row_scale = 1.0;
    if (FORMAT == ACTIVATION_F16 || FORMAT == ACTIVATION_TILES) {
        float largest = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            const vec4 magnitude = abs(x[i]);
            largest = max(largest, max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w)));
        }
        row_scale = f16_row_scale(largest_over_lanes(largest));
        const uint64_t scales =
            FORMAT == ACTIVATION_F16 ? p.y + uint64_t(p.rows) * p.cols * 2u : tile_scales(p.y, p.rows, p.cols);
        if (lane == 0u) FloatsOut(scales).at[row] = row_scale;
    }
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        const uint quad = i * LANES + lane;
        if (FORMAT == ACTIVATION_Q8) {
            store_q8(p.y, p.rows, p.cols, row, quad, x[i]);
        } else if (quad < quads) {
            if (FORMAT == ACTIVATION_F16) {
                const vec4 scaled = x[i] / row_scale;
                Uint2sOut(p.y).at[row * quads + quad] = uvec2(packHalf2x16(scaled.xy), packHalf2x16(scaled.zw));
            } else if (FORMAT == ACTIVATION_TILES) {
                store_tiles(p.y, p.rows, p.cols, row, quad, x[i] / row_scale);
            } else {
                Float4sOut(p.y).at[row * quads + quad] = x[i];
            }
        }
    }
}

void main() {
    run_row();
    count_in_chain(p.chain);
}
