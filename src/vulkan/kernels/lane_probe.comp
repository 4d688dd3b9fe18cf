// Asks the device which elements of its matrices each lane has: matrices are loaded whose element (row, column) is
// 16 * row + column, and every lane tells what it got, -1 beyond its last. [3 matrices][32 lanes][8 elements]
//! MATRIX: khr
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"

layout(local_size_x = 32) in;
layout(constant_id = 0) const uint COLS = 16u;
layout(constant_id = 1) const uint ROWS = 16u;
layout(constant_id = 2) const uint DEPTH = 16u;
const uint WARPS = 1u;
#include "lane_matrix.glsl"

layout(push_constant, scalar) uniform Params {
    uint64_t halves;  // f16 0, 1, ... 255
    uint64_t floats;  // f32 0, 1, ... 255
    uint64_t found;
} p;

void main() {
    WeightMatrix weights;
    ActivationMatrix activations;
    SumMatrix sums;
    coopMatLoadNV(weights, HalvesOut(p.halves).at, 0u, 16u, false);
    coopMatLoadNV(activations, HalvesOut(p.halves).at, 0u, 16u, false);
    coopMatLoadNV(sums, FloatsOut(p.floats).at, 0u, 16u, false);
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        IntsOut(p.found).at[LANE * 8u + i] = i < COLS * DEPTH / 32u ? int(weights[i]) : -1;
        IntsOut(p.found).at[256u + LANE * 8u + i] = i < DEPTH * ROWS / 32u ? int(activations[i]) : -1;
        IntsOut(p.found).at[512u + LANE * 8u + i] = i < COLS * ROWS / 32u ? int(sums[i]) : -1;
    }
    // The roles of the types come from a product.
    MULTIPLY_ADD(sums, weights, activations);
    if (p.found == 0u) coopMatStoreNV(sums, FloatsOut(p.floats).at, 0u, 16u, false);
}
