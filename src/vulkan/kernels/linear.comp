// out[row][o] = sum over i of x[row][i] * weight[o][i] + bias[o], in f32. A workgroup makes OUTPUTS outputs of ROWS rows:
// its lanes share the blocks of 32 of a weight row and add their sums at the end.
//
// With EXPERTS, of each row `used` times: with the `outputs` rows from `first` on of the matrix that routing (of Route)
// names, of `stride` rows, times its scale. x is the same for all experts of a row, or there is one for each.
//! WEIGHT: all
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
layout(constant_id = 3) const bool TILED = false;
#include "weights.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 64u;
layout(constant_id = 1) const uint OUTPUTS = 4u;
layout(constant_id = 2) const uint ROWS = 1u;
layout(constant_id = 4) const bool EXPERTS = false;  // then ROWS is 1

struct Experts {
    uint64_t routing;
    uint64_t scales;  // 0: none
    uint used;
    uint stride;
    uint first;
    uint shared_x;  // 1: of all experts of a row
};

layout(push_constant, scalar) uniform Params {
    Weight weight;
    uint64_t x;
    uint64_t bias;  // 0: none
    uint64_t y;
    uint inputs;
    uint outputs;
    uint rows;  // with EXPERTS: times used
    Experts experts;
} p;

shared float partial[OUTPUTS * ROWS * LANES];

// Four consecutive elements of weight row `o`.
#if PLAIN
#define LOAD_CHUNK(o, c)
#define CHUNK_QUADS 1u
#define CHUNK_VALUES(o, c, i) plain_values(p.weight, o, c, p.inputs / 4u)
#else
#define LOAD_CHUNK(o, c) const Block block = load_block(p.weight, o, c, p.inputs / 32u);
#define CHUNK_QUADS 8u
#define CHUNK_VALUES(o, c, i) block_values(block, i)
#endif

uint expert_of(uint row) {
    return uint(Floats(p.experts.routing).at[row / p.experts.used * 2u * p.experts.used + row % p.experts.used]);
}
uint x_row(uint row) { return EXPERTS && p.experts.shared_x == 1u ? row / p.experts.used : row; }

void main() {
    prepare_weights(p.weight, LANES);
    const uint lane = gl_LocalInvocationID.x;
    const uint first_output = gl_WorkGroupID.x * OUTPUTS;
    const uint first_row = gl_WorkGroupID.y * ROWS;
    const uint quads = p.inputs / 4u;
    const uint expert = EXPERTS ? expert_of(first_row) : 0u;
    const uint first_weight = EXPERTS ? expert * p.experts.stride + p.experts.first : 0u;
    float sum[OUTPUTS][ROWS];
    [[unroll]] for (uint o = 0u; o < OUTPUTS; ++o) {
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) sum[o][r] = 0.0;
    }
#if PLAIN
    if (p.inputs % 4u != 0u) {
        for (uint i = lane; i < p.inputs; i += LANES) {
            [[unroll]] for (uint o = 0u; o < OUTPUTS; ++o) {
                const uint row = first_weight + min(first_output + o, p.outputs - 1u);
                const float w = plain_value(p.weight, row * p.inputs + i);
                [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                    sum[o][r] += w * Floats(p.x).at[x_row(min(first_row + r, p.rows - 1u)) * p.inputs + i];
                }
            }
        }
    } else
#endif
    for (uint chunk = lane; chunk < quads / CHUNK_QUADS; chunk += LANES) {
        vec4 x[ROWS][CHUNK_QUADS];
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            const uint row = x_row(min(first_row + r, p.rows - 1u));
            [[unroll]] for (uint i = 0u; i < CHUNK_QUADS; ++i) {
                x[r][i] = Float4s(p.x).at[row * quads + chunk * CHUNK_QUADS + i];
            }
        }
        [[unroll]] for (uint o = 0u; o < OUTPUTS; ++o) {
            const uint output_ = first_weight + min(first_output + o, p.outputs - 1u);
            LOAD_CHUNK(output_, chunk)
            [[unroll]] for (uint i = 0u; i < CHUNK_QUADS; ++i) {
                const vec4 w = CHUNK_VALUES(output_, chunk, i);
                [[unroll]] for (uint r = 0u; r < ROWS; ++r) sum[o][r] += dot(w, x[r][i]);
            }
        }
    }
    [[unroll]] for (uint o = 0u; o < OUTPUTS; ++o) {
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) partial[(o * ROWS + r) * LANES + lane] = sum[o][r];
    }
    barrier();
    for (uint half_size = LANES / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) {
            [[unroll]] for (uint i = 0u; i < OUTPUTS * ROWS; ++i) {
                partial[i * LANES + lane] += partial[i * LANES + lane + half_size];
            }
        }
        barrier();
    }
    for (uint i = lane; i < OUTPUTS * ROWS; i += LANES) {
        const uint output_ = first_output + i / ROWS;
        const uint row = first_row + i % ROWS;
        if (output_ >= p.outputs || row >= p.rows) continue;
        float value = partial[i * LANES];
        if (EXPERTS && p.experts.scales != 0u) value *= Floats(p.experts.scales).at[expert];
        if (p.bias != 0u) value += Floats(p.bias).at[first_weight + output_];
        FloatsOut(p.y).at[row * p.outputs + output_] = value;
    }
}
