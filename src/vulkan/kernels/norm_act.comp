// From a row of the residual stream to the activations of the next product, one workgroup per row:
//   x' = sum_scale * (x + delta_scale * post_norm(delta)), y = activations(norm(x'))
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
layout(constant_id = 6) const uint SPLITS = 1u;      // of delta

const uint MOST_SPLITS = 8u;

layout(push_constant, scalar) uniform Params {
    uint64_t x;
    uint64_t delta;  // f32 [SPLITS][rows][cols]
    uint64_t post_weight;
    uint64_t sum;  // x'
    uint64_t weight;
    uint64_t y;
    uint rows;
    uint cols;
    float post_eps;
    float eps;
    float delta_scale;
    float sum_scale;
    Chain chain;
} p;

shared float partial[3][LANES / 4u];  // of each reduction; a subgroup has at least four lanes

// Each subgroup adds up by itself what all have found.
float sum_over_lanes(uint slot, float value) {
    const float own = subgroupAdd(value);
    if (subgroupElect()) partial[slot][gl_SubgroupID] = own;
    barrier();
    float sum = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) sum += partial[slot][i];
    return subgroupAdd(sum);
}

float largest_over_lanes(uint slot, float value) {
    const float own = subgroupMax(value);
    if (subgroupElect()) partial[slot][gl_SubgroupID] = own;
    barrier();
    float largest = 0.0;
    for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize) {
        largest = max(largest, partial[slot][i]);
    }
    return subgroupMax(largest);
}

// All splits are under way before the first is added.
vec4 load_delta(uint64_t ready, uint row, uint quad) {
    vec4 parts[MOST_SPLITS];
    [[unroll]] for (uint s = 0u; s < MOST_SPLITS; ++s) {
        if (s < SPLITS) parts[s] = MadeFloat4s(p.delta + ready).at[(s * p.rows + row) * (p.cols / 4u) + quad];
    }
    vec4 sum = parts[0];
    [[unroll]] for (uint s = 1u; s < MOST_SPLITS; ++s) {
        if (s < SPLITS) sum += parts[s];
    }
    return sum;
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
        if (ADDS) delta[i] = load_delta(ready, row, quad);
    }
    if (ADDS) {
        if (POST) {
            float squares = 0.0;
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
                if (i * LANES + lane < quads) squares += dot(delta[i], delta[i]);
            }
            const float scale = inversesqrt(sum_over_lanes(0u, squares) / float(p.cols) + p.post_eps);
            [[unroll]] for (uint i = 0u; i < QUADS; ++i) delta[i] *= scale * post_weight[i];
        }
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
            x[i] = p.sum_scale * (x[i] + p.delta_scale * delta[i]);
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
        const float scale = inversesqrt(sum_over_lanes(1u, squares) / float(p.cols) + p.eps);
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) x[i] *= scale * weight[i];
    }
    float shrink = 1.0;
    if (FORMAT == ACTIVATION_F16 || FORMAT == ACTIVATION_TILES) {
        float largest = 0.0;
        [[unroll]] for (uint i = 0u; i < QUADS; ++i) largest = max(largest, largest_of(x[i]));
        const float row_scale = f16_row_scale(largest_over_lanes(2u, largest));
        const uint64_t scales =
            FORMAT == ACTIVATION_F16 ? p.y + uint64_t(p.rows) * p.cols * 2u : tile_scales(p.y, p.rows, p.cols);
        if (lane == 0u) FloatsOut(scales).at[row] = row_scale;
        shrink = 1.0 / row_scale;  // exact: a power of two
    }
    [[unroll]] for (uint i = 0u; i < QUADS; ++i) {
        const uint quad = i * LANES + lane;
        if (FORMAT == ACTIVATION_Q8) {
            store_q8(p.y, p.rows, p.cols, row, quad, x[i]);
        } else if (quad < quads) {
            if (FORMAT == ACTIVATION_F16) {
                const vec4 scaled = x[i] * shrink;
                Uint2sOut(p.y).at[row * quads + quad] = uvec2(packHalf2x16(scaled.xy), packHalf2x16(scaled.zw));
            } else if (FORMAT == ACTIVATION_TILES) {
                store_tiles(p.y, p.rows, p.cols, row, quad, x[i] * shrink);
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
