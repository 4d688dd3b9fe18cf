// y[split][row][output] = scale[row] * sum over i of x[row][i] * weight[output][i] + bias[output], or with a GLU
// y[row][output] = activation(gate) * up: products of a matrix and many rows, f16 times f16 added up in f32.
//
// A workgroup makes TILE_ROWS x TILE_COLS results, each of its subgroups ("warps") WARP_ROWS x WARP_COLS of them. In
// steps of DEPTH inputs, the weights and activations of the next step come from memory into registers while the present
// step is multiplied out of shared memory; they are made f16 on their way into it.
//
// With EXPERTS, rows are the slots (row * used + which of its experts) that kernels/expert_rows.comp has sorted: a workgroup
// takes rows of one expert, of whose matrix `outputs` rows are multiplied, and y[slot] are the results.
//! WEIGHT: matrices
//! MATRIX: khr scalar
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#include "common.glsl"
#include "functions.glsl"
layout(constant_id = 13) const bool TILED = false;
#define DECODES_TO_F16
#if MATRIX == KHR
#define SCALES_IN_F16  // devices with matrices compute with the smallest f16
#endif
#include "weights.glsl"
#include "weights_f16.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 128u;
layout(constant_id = 1) const uint SUBGROUP = 32u;
layout(constant_id = 2) const uint FRAGMENT_COLS = 16u;
layout(constant_id = 3) const uint FRAGMENT_ROWS = 16u;
layout(constant_id = 4) const uint FRAGMENT_DEPTH = 16u;
layout(constant_id = 5) const uint TILE_ROWS = 128u;
layout(constant_id = 6) const uint TILE_COLS = 128u;
layout(constant_id = 7) const uint DEPTH = 32u;
layout(constant_id = 8) const uint WARP_ROWS = 64u;
layout(constant_id = 9) const uint WARP_COLS = 64u;
layout(constant_id = 10) const uint STAGES = 1u;  // of shared memory, 1 or 2
layout(constant_id = 11) const uint GLU = 0u;     // 0: none, else 1 + the enum op::Activation
layout(constant_id = 12) const bool TAIL = true;  // inputs are no multiple of DEPTH
layout(constant_id = 14) const uint EXPERTS = 0u;  // of a row; 0: it has none
layout(constant_id = 15) const bool SHARED_X = false;  // one row of x for all of a row's experts

struct SortedRows {
    uint64_t tiles;   // of kernels/expert_rows.comp
    uint64_t order;   // slots, sorted
    uint64_t scales;  // of the products of each expert; 0: none. Without GLU
    uint stride;      // rows of the weight from one expert to the next
    uint up;          // and from a gate's row to its up row
};

layout(push_constant, scalar) uniform Params {
    Weight weight;
    uint64_t x;       // f16
    uint64_t scales;  // f32, of the rows of x
    uint64_t bias;    // 0: none
    uint64_t y;
    uint inputs;
    uint outputs;  // rows of the weight
    uint rows;
    uint steps;  // of a split
    uint bands;  // of row tiles: the tiles of a band run side by side, so that they share the weights they read
    SortedRows experts;
}
p;

const uint BLOCKS = DEPTH / 32u;          // of a weight row in a step
const uint CHUNKS = DEPTH / 8u;           // uvec4 of a row in a step
const uint STRIDE = CHUNKS + 1u;          // odd, so that eight rows lie in different banks
const uint WEIGHTS = TILE_ROWS * STRIDE;  // where they begin in a stage
const uint STAGE = (TILE_ROWS + TILE_COLS) * STRIDE;
const uint ROW_WARPS = TILE_ROWS / WARP_ROWS;
const uint WARPS = ROW_WARPS * (TILE_COLS / WARP_COLS);
const uint SLAB_STRIDE = WARP_COLS / 4u + 1u;
const uint SLAB = FRAGMENT_ROWS * SLAB_STRIDE;  // a row of fragments of a warp, as f32, on its way out

// Results of the tile and of a warp side by side: of a gate and its up one comes out.
const uint HALVES = GLU == 0u ? 1u : 2u;
const uint WARP_RESULTS = WARP_COLS / HALVES;
const uint TILE_RESULTS = TILE_COLS / HALVES;

const uint WEIGHT_LOADS = (TILE_COLS * BLOCKS + LANES - 1u) / LANES;
const uint X_LOADS = (TILE_ROWS * CHUNKS + LANES - 1u) / LANES;

shared uvec4 memory[STAGES * STAGE > WARPS* SLAB ? STAGES* STAGE : WARPS* SLAB];

#include "fragments.glsl"

// What is on its way from memory.
RawBlock raw_weights[WEIGHT_LOADS];
uvec4 raw_x[X_LOADS];

// Row and block within a tile's step of the lane's load `i`. Eight lanes take two blocks each of four rows: they read
// whole sectors of 32 bytes, and what they store lies in different banks.
uvec2 weight_place(uint i) {
    const uint at = i * LANES + gl_LocalInvocationIndex;
    if (BLOCKS == 1u) return uvec2(at, 0u);
    const uint rest = at / 8u, pairs = BLOCKS / 2u;
    return uvec2((at / 2u) % 4u + 4u * (rest / pairs), at % 2u + 2u * (rest % pairs));
}

uvec2 x_place(uint i) {
    const uint at = i * LANES + gl_LocalInvocationIndex;
    return uvec2(at / CHUNKS, at % CHUNKS);
}

bool in_tile(uint i, uint count) {
    return count % LANES == 0u || i * LANES + gl_LocalInvocationIndex < count;
}

// The rows at hand: all of them, or the ones of an expert.
uint expert = 0u, first_place = 0u, end_row = 0u;

// The row of y of row `row` of these, and that of x.
uint y_row(uint row) { return EXPERTS > 0u ? Uints(p.experts.order).at[first_place + row] : row; }
uint x_row(uint row) { return SHARED_X ? y_row(row) / EXPERTS : y_row(row); }

// The weight row that row `row` of the tile holds. A warp has gate rows in its first half, their up rows in the other.
uint weight_row(uint first_result, uint row) {
    const uint results = p.outputs / HALVES;
    const uint within = row % WARP_COLS;
    const uint result = min(first_result + row / WARP_COLS * WARP_RESULTS + within % WARP_RESULTS, results - 1u);
    const uint up = EXPERTS > 0u ? p.experts.up : results;
    return (EXPERTS > 0u ? expert * p.experts.stride : 0u) + result + within / WARP_RESULTS * up;
}

uint weight_block(uint step, uvec2 place) {
    const uint block = step * BLOCKS + place.y;
    return TAIL ? min(block, p.inputs / 32u - 1u) : block;
}

RawBlock load_weights(uint first_result, uint step, uvec2 place) {
    const uint row = weight_row(first_result, place.x), block = weight_block(step, place), blocks = p.inputs / 32u;
    return load_raw(p.weight, place_of(row, block, blocks), row * blocks + block);
}

void load_step(uint first_row, uint first_result, uint step) {
    UNROLL for (uint i = 0u; i < WEIGHT_LOADS; ++i) {
        raw_weights[i] = load_weights(first_result, step, weight_place(i));  // at the last output past the tile
    }
    UNROLL for (uint i = 0u; i < X_LOADS; ++i) {
        // Loads behind a branch would be waited for before the products. Rows beyond the last are put nowhere.
        const uvec2 place = x_place(i);
        const uint row = x_row(min(first_row + place.x, end_row - 1u));
        const uint chunk = step * CHUNKS + place.y, chunks = p.inputs / 8u;
        raw_x[i] = Uint4s(p.x).at[row * chunks + (TAIL ? min(chunk, chunks - 1u) : chunk)];
        // zeros where there are no inputs: the weights there are others, but finite
        if (TAIL) raw_x[i] = mix(uvec4(0u), raw_x[i], bvec4(chunk < chunks));
    }
}

void store_step(uint first_result, uint step, uint stage) {
    UNROLL for (uint i = 0u; i < WEIGHT_LOADS; ++i) {
        if (in_tile(i, TILE_COLS * BLOCKS)) {
            const uvec2 place = weight_place(i);
            const uint to = stage * STAGE + WEIGHTS + place.x * STRIDE + 4u * place.y;
            uvec4 values[4];
            decode_f16(raw_weights[i], values);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) memory[to + j] = values[j];
        }
    }
    UNROLL for (uint i = 0u; i < X_LOADS; ++i) {
        const uvec2 place = x_place(i);
        if (in_tile(i, TILE_ROWS * CHUNKS)) {
            memory[stage * STAGE + place.x * STRIDE + place.y] = in_pair_order(raw_x[i]);
        }
    }
}

float slab_value(uint slab, uint row, uint col) {
    return uintBitsToFloat(memory[slab + row * SLAB_STRIDE + col / 4u][col % 4u]);
}

// Puts a row of fragments out, from the warp's slab: rows from `row` on, results from `result` on.
void put_slab(uint slab, uint split, uint row, uint result) {
    const uint results = p.outputs / HALVES;
    [[dont_unroll]] for (uint i = WARP_LANE; i < FRAGMENT_ROWS * WARP_RESULTS; i += SUBGROUP) {
        const uint r = i / WARP_RESULTS, c = i % WARP_RESULTS;
        if (row + r >= end_row || result + c >= results) continue;
        const uint first_weight = EXPERTS > 0u ? expert * p.experts.stride : 0u;
        const float scale = Floats(p.scales).at[x_row(row + r)];
        float value = scale * slab_value(slab, r, c);
        if (EXPERTS > 0u && p.experts.scales != 0u) value *= Floats(p.experts.scales).at[expert];
        if (p.bias != 0u && split == 0u) value += Floats(p.bias).at[first_weight + result + c];
        if (GLU != 0u) {
            float up = scale * slab_value(slab, r, c + WARP_RESULTS);
            const uint up_row = EXPERTS > 0u ? first_weight + p.experts.up : results;
            if (p.bias != 0u) up += Floats(p.bias).at[up_row + result + c];
            value = gated(GLU - 1u, value, up);
        }
        FloatsOut(p.y).at[(split * p.rows + y_row(row + r)) * results + result + c] = value;
    }
}

void main() {
    prepare_weights(p.weight, LANES);
    const uint band = gl_WorkGroupID.z % p.bands, split = gl_WorkGroupID.z / p.bands;
    uint first_row = (band * gl_NumWorkGroups.x + gl_WorkGroupID.x) * TILE_ROWS;
    const uint first_result = gl_WorkGroupID.y * TILE_RESULTS;
    end_row = p.rows;
    if (EXPERTS > 0u) {
        const uvec4 tile = Uint4s(p.experts.tiles).at[gl_WorkGroupID.x];
        expert = tile.x;
        first_place = tile.y;
        first_row = 0u;
        end_row = tile.z;
    }
    if (first_row >= end_row) return;  // of the last band, or of tiles that there are not
    const uint first_step = split * p.steps;
    const uint end_step = min(first_step + p.steps, (p.inputs + DEPTH - 1u) / DEPTH);
    const uint warp_row = WARP % ROW_WARPS * WARP_ROWS, warp_col = WARP / ROW_WARPS * WARP_COLS;

    Sums sums[WARP_COLS / FRAGMENT_COLS][WARP_ROWS / FRAGMENT_ROWS];
    UNROLL for (uint i = 0u; i < WARP_COLS / FRAGMENT_COLS; ++i) {
        UNROLL for (uint j = 0u; j < WARP_ROWS / FRAGMENT_ROWS; ++j) CLEAR(sums[i][j]);
    }

    uint stage = 0u;
    load_step(first_row, first_result, first_step);
    store_step(first_result, first_step, stage);
    barrier();
    [[dont_unroll]] for (uint step = first_step; step < end_step; ++step) {
        const bool more = step + 1u < end_step;
        load_step(first_row, first_result, min(step + 1u, end_step - 1u));
        const uint x_at = stage * STAGE + warp_row * STRIDE, weights_at = stage * STAGE + WEIGHTS + warp_col * STRIDE;
        UNROLL for (uint k = 0u; k < CHUNKS; k += FRAGMENT_DEPTH / 8u) {
            WeightFragment weights[WARP_COLS / FRAGMENT_COLS];
            UNROLL for (uint i = 0u; i < WARP_COLS / FRAGMENT_COLS; ++i) {
                LOAD_WEIGHTS(weights[i], weights_at + i * FRAGMENT_COLS * STRIDE + k, STRIDE);
            }
            UNROLL for (uint j = 0u; j < WARP_ROWS / FRAGMENT_ROWS; ++j) {
                ActivationFragment x;
                LOAD_ACTIVATIONS(x, x_at + j * FRAGMENT_ROWS * STRIDE + k, STRIDE);
                UNROLL for (uint i = 0u; i < WARP_COLS / FRAGMENT_COLS; ++i) MULTIPLY_ADD(sums[i][j], weights[i], x);
            }
        }
        // With one stage, all have to be done with it before it is filled anew.
        if (STAGES == 1u) {
            barrier();
        } else {
            stage = 1u - stage;
        }
        if (more) store_step(first_result, step + 1u, stage);
        barrier();
    }

    const uint slab = WARP * SLAB;
    UNROLL for (uint j = 0u; j < WARP_ROWS / FRAGMENT_ROWS; ++j) {
        UNROLL for (uint i = 0u; i < WARP_COLS / FRAGMENT_COLS; ++i) {
            STORE_SUMS(sums[i][j], slab + i * (FRAGMENT_COLS / 4u), SLAB_STRIDE);
        }
        barrier();
        put_slab(slab, split, first_row + warp_row + j * FRAGMENT_ROWS, first_result + warp_col / HALVES);
        barrier();
    }
}
