// y[split][row][output] = scale[row] * sum over i of x[row][i] * weight[output][i] + bias[output], or with a GLU
// y[row][output] = activation(gate) * up, f32 or, where it cannot overflow, activations in tiles, as kernels/matmul.comp, for activations in tiles: each warp streams the weights of
// COL_TILES x 16 outputs from memory into its lanes' registers and multiplies them there with ROW_TILES tiles of rows. A
// lane decodes whole blocks, so no weight is decoded twice in a warp or goes through shared memory.
//! WEIGHT: matrices
//! MATRIX: khr scalar
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "functions.glsl"
#include "activations.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint INVOCATIONS = 128u;
layout(constant_id = 1) const uint COLS = 16u;
layout(constant_id = 2) const uint ROWS = 16u;  // of a tile: 8 or 16
layout(constant_id = 3) const uint DEPTH = 16u;
layout(constant_id = 4) const uint COL_TILES = 2u;
layout(constant_id = 5) const uint ROW_TILES = 1u;
layout(constant_id = 6) const uint ROW_WARPS = 1u;  // of the workgroup's, side by side along the rows
layout(constant_id = 7) const uint GLU = 0u;        // 0: none, else 1 + the enum op::Activation
layout(constant_id = 8) const uint DEPTH_WARPS = 1u;  // that share the inputs of the same outputs
layout(constant_id = 9) const bool TILED = false;
layout(constant_id = 10) const bool CHAINED = false;
layout(constant_id = 11) const bool Y_TILES = false;  // y are activations in tiles
const uint WARPS = INVOCATIONS / 32u;

#include "lane_matrix.glsl"
#define DECODES_TO_F16
#include "weights.glsl"
#define CHAIN_ACQUIRES
#include "chain.glsl"

layout(push_constant, scalar) uniform Params {
    Weight weight;
    uint64_t x;
    uint64_t scales;  // f32, of the rows of x
    uint64_t bias;    // 0: none
    uint64_t y;
    uint64_t bounds;  // vec2, with Y_TILES: the largest sums of magnitudes of a row of gate and of up
    uint inputs;   // a multiple of 128
    uint outputs;  // rows of the weight
    uint rows;
    uint windows;  // of 128 inputs, of a split
    uint pair_base;  // PAIR_BASE
    Chain chain;
} p;

uint pair_base;  // in a register of each lane, not a constant
#define PAIR_BASE pair_base
#define SCALES_IN_F16  // NVIDIA's devices, whose matrices these are, compute with the smallest f16
#include "weights_f16.glsl"

const uint HALVES = GLU == 0u ? 1u : 2u;
const uint RESULT_TILES = COL_TILES / HALVES;
#define EACH_HALF(h) [[unroll]] for (uint h = 0u; h < 2u; ++h) if (h < HALVES)  // unrolled as EACH_ELEMENT is
const uint COL_WARPS = WARPS / (ROW_WARPS * DEPTH_WARPS);

const uint STEP_BYTES = LANES * ROWS;  // of a tile of activations
// Where registers have room for all activations of a window, they are loaded at its beginning, or, with so few rows that
// there is room beside, while the window before is multiplied.
const bool X_FIRST = ROWS == 16u && ROW_TILES == 1u;
const bool X_AHEAD = ROWS == 8u && GLU != 0u;
// With many rows, a driver puts off all loads of weights to the end of a window, where they come too late; not past a barrier.
const bool LOADS_STAY = ROW_TILES > 2u;

// Each of the warps that share their outputs finishes SHARE of a lane's results, whose numbers are
// (tile of outputs * ROW_TILES + tile of rows) * ELEMENTS + element.
const uint LANE_RESULTS = RESULT_TILES * ROW_TILES * ELEMENTS;
const uint SHARE = (LANE_RESULTS + DEPTH_WARPS - 1u) / DEPTH_WARPS;

// What they leave for each other.
shared float left[DEPTH_WARPS == 1u ? 1u
                                    : COL_WARPS * ROW_WARPS * (DEPTH_WARPS - 1u) * DEPTH_WARPS * HALVES * SHARE * LANES];

// Where the sum number `i` of the share of `owner`, gates before ups, is left by one of the others.
uint left_at(uint place, uint owner, uint i, uint other) {
    return (((place * DEPTH_WARPS + owner) * (HALVES * SHARE) + i) * (DEPTH_WARPS - 1u) + other) * LANES + LANE;
}

// The weight row of output `g` of a tile. The first half of a GLU's tiles are gates, the others their ups.
uint weight_row(uint first_result, uint tile, uint g) {
    const uint results = p.outputs / HALVES;
    return min(first_result + tile % RESULT_TILES * 16u + g, results - 1u) + tile / RESULT_TILES * results;
}

// Of outputs g and g + 8 of each tile: the place of the lane's first block, in tiles of the first lane's of output 0, and the
// block's number in the matrix.
uint place_at[COL_TILES][2];
uint block_at[COL_TILES][2];

// Where a lane finds its block of a window: a place in planes. With weights in tiles these begin at the tile, which is the
// same for the whole warp, so that no lane needs an address of its own.
Weight planes_of(uint c, uint window) {
    if (TILED) return weight_from(p.weight, place_at[c][0] + 64u * window);
    return p.weight;
}
uint place_in_planes(uint c, uint h, uint window) { return TILED ? 32u * h + LANE : place_at[c][h] + 4u * window; }

void load_window(uint window, out RawBlock raw[COL_TILES][2]) {
    [[unroll]] for (uint c = 0u; c < COL_TILES; ++c) {
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            raw[c][h] = load_raw(planes_of(c, window), place_in_planes(c, h, window), block_at[c][h] + 4u * window);
        }
    }
}

// With Y_TILES, the scale of a row of y by the scale of a row of x. No value of x is above 2^8 times its scale and the
// activations are below their arguments, so that nothing in y / scale is above 2^15; f16 ends at 2^16.
float y_growth = 1.0;
float y_scale(float scale) { return max(scale * scale * y_growth, 1.0e-30); }
void find_growth() {
    const vec2 bounds = max(Float2s(p.bounds).at[0], 1.0e-30);
    y_growth = exp2(ceil(log2(bounds.x)) + ceil(log2(bounds.y)) + 16.0 - 15.0);
}

// `scale`: of the row of x. Results beyond the last are computed like the others, so that there is one branch, at the end.
void put(uint split, uint row, uint result, float scale, float value, float up) {
    const uint results = p.outputs / HALVES, known = min(result, results - 1u);
    value *= scale;
    if (!Y_TILES && p.bias != 0u && split == 0u) value += Floats(p.bias).at[known];
    if (GLU != 0u) {
        up *= scale;
        if (!Y_TILES && p.bias != 0u) up += Floats(p.bias).at[results + known];
        value = gated(GLU - 1u, value, up);
    }
    if (row >= p.rows || result >= results) return;
    if (Y_TILES) {
        const float scale_out = y_scale(scale);
        HalvesOut(p.y).at[tile_half(p.rows, results, row, result)] = float16_t(value * (1.0 / scale_out));
        if (result == 0u) FloatsOut(tile_scales(p.y, p.rows, results)).at[row] = scale_out;
    } else {
        FloatsOut(p.y).at[(split * p.rows + row) * results + result] = value;
    }
}

uint64_t x_at;    // of the first tile
uint more_tiles;  // after that; beyond the last is the last again

uvec4 load_x(uint r, uint window, uint s) {
    const uint64_t at = x_at + uint64_t((min(r, more_tiles) * (p.inputs / 128u) + window) * (8u * STEP_BYTES));
    if (ROWS == 16u) return Uint4s(at).at[s * LANES + LANE];
    return uvec4(Uint2s(at + LANE * ROWS).at[s * LANES], 0u, 0u);  // fewer registers, as the steps need no offsets
}

#define PUT_X(matrix, halves)               \
    {                                       \
        PUT_PAIR(matrix, 0u, halves.x);     \
        PUT_PAIR(matrix, 2u, halves.y);     \
        if (ROWS == 16u) {                  \
            PUT_PAIR(matrix, 4u, halves.z); \
            PUT_PAIR(matrix, 6u, halves.w); \
        }                                   \
    }

// A window of one tile of rows whose activations are in registers: the weights tile by tile, whose loads for the next window
// follow at once.
void multiply_window(uint window, bool beyond, uint end_window, inout uvec4 halves[8], inout RawBlock raw[COL_TILES][2],
                     inout SumMatrix sums[COL_TILES][ROW_TILES]) {
    const uint t = LANE % 4u, next = min(window + DEPTH_WARPS, end_window - 1u);
    if (X_FIRST) {
        [[unroll]] for (uint s = 0u; s < 8u; ++s) halves[s] = load_x(0u, window, s);
    }
    UNROLL for (uint c = 0u; c < COL_TILES; ++c) {
        uvec4 values[2][4];
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            decode_f16(raw[c][h], values[h]);
            raw[c][h] = load_raw(planes_of(c, next), place_in_planes(c, h, next), block_at[c][h] + 4u * next);
        }
        UNROLL for (uint s = 0u; s < 8u; ++s) {
            const uvec4 of_step = beyond ? uvec4(0u) : halves[s];
            ActivationMatrix x;
            PUT_X(x, of_step)
            WeightMatrix weights;
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                PUT_PAIR(weights, 2u * i, values[i / 2u][s / 2u][s % 2u * 2u + i % 2u]);
            }
            MULTIPLY_ADD(sums[c][0], weights, x);
            if (X_AHEAD && c + 1u == COL_TILES) halves[s] = load_x(0u, next, s);
        }
    }
}

// Of a result of the lane, by its number.
uint row_at(uint first_tile, uint number) {
    return (first_tile + number / ELEMENTS % ROW_TILES) * ROWS + row_of(LANE, number % ELEMENTS);
}
uint result_at(uint first_result, uint number) {
    return first_result + number / (ROW_TILES * ELEMENTS) * 16u + output_of(LANE, number % ELEMENTS);
}

void main() {
    const uint split = gl_WorkGroupID.z;
    const uint lane = LANE, g = lane / 4u, t = lane % 4u;
    const uint depth = WARP / (ROW_WARPS * COL_WARPS), place = WARP % (ROW_WARPS * COL_WARPS);
    const uint first_tile = (gl_WorkGroupID.x * ROW_WARPS + place % ROW_WARPS) * ROW_TILES;
    const uint first_result = (gl_WorkGroupID.y * COL_WARPS + place / ROW_WARPS) * RESULT_TILES * 16u;
    const uint first_window = split * p.windows;
    const uint end_window = min(first_window + p.windows, p.inputs / 128u);

    [[unroll]] for (uint c = 0u; c < COL_TILES; ++c) {
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            const uint row = weight_row(first_result, c, g + 8u * h), blocks = p.inputs / 32u;
            place_at[c][h] = TILED ? place_of(weight_row(first_result, c, 0u) / 16u * 16u, 0u, blocks)
                                   : place_of(row, t, blocks);
            block_at[c][h] = row * blocks + t;
        }
    }
    const uint last_tile = (p.rows + ROWS - 1u) / ROWS - 1u, x_tile = min(first_tile, last_tile);
    more_tiles = last_tile - x_tile;
    x_at = p.x + uint64_t(x_tile * (p.inputs / 128u)) * (8u * STEP_BYTES);
    pair_base = p.pair_base | uint(x_at >> 63);  // no address is so large, which only we know
    SumMatrix sums[COL_TILES][ROW_TILES];
    UNROLL for (uint c = 0u; c < COL_TILES; ++c) {
        UNROLL for (uint r = 0u; r < ROW_TILES; ++r) CLEAR(sums[c][r]);
    }
    prepare_weights(p.weight, INVOCATIONS);
    RawBlock raw[COL_TILES][2];
    load_window(min(first_window + depth, end_window - 1u), raw);
    if (CHAINED) await_chain(p.chain);
    uvec4 halves[8];
    if (X_AHEAD) {
        const uint window = min(first_window + depth, end_window - 1u);
        [[unroll]] for (uint s = 0u; s < 8u; ++s) halves[s] = load_x(0u, window, s);
    }
    [[dont_unroll]] for (uint turn = first_window; turn < end_window; turn += DEPTH_WARPS) {
        const bool beyond = DEPTH_WARPS > 1u && turn + depth >= end_window;  // in the last turn
        if (beyond && !WARPS_IN_STEP) break;
        const uint window = min(turn + depth, end_window - 1u);
        if (X_FIRST || X_AHEAD) {
            multiply_window(window, beyond, end_window, halves, raw, sums);
            continue;
        }
        const uint next = min(window + DEPTH_WARPS, end_window - 1u);
        // The parts of the blocks one after another: half the registers, and decoding beside multiplying.
        [[unroll]] for (uint part = 0u; part < 2u; ++part) {
            if (LOADS_STAY && part != 0u) subgroupMemoryBarrierBuffer();
            uvec4 values[COL_TILES][2][2];
            [[unroll]] for (uint c = 0u; c < COL_TILES; ++c) {
                [[unroll]] for (uint h = 0u; h < 2u; ++h) {
                    decode_part(raw[c][h], part, values[c][h]);
                }
            }
            // under way while this part and the other are multiplied
            [[unroll]] for (uint c = 0u; c < COL_TILES; ++c) {
                [[unroll]] for (uint h = 0u; h < 2u; ++h) {
                    load_part(planes_of(c, next), place_in_planes(c, h, next), block_at[c][h] + 4u * next, part, raw[c][h]);
                }
            }
            UNROLL for (uint s = 0u; s < 4u; ++s) {
                ActivationMatrix x[ROW_TILES];
                UNROLL for (uint r = 0u; r < ROW_TILES; ++r) {
                    const uvec4 of_step = beyond ? uvec4(0u) : load_x(r, window, four_of(part, s));
                    PUT_X(x[r], of_step)
                }
                UNROLL for (uint c = 0u; c < COL_TILES; ++c) {
                    WeightMatrix weights;
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        PUT_PAIR(weights, 2u * i, values[c][i / 2u][s / 2u][s % 2u * 2u + i % 2u]);
                    }
                    UNROLL for (uint r = 0u; r < ROW_TILES; ++r) MULTIPLY_ADD(sums[c][r], weights, x[r]);
                }
            }
        }
    }

    if (Y_TILES) find_growth();  // not before: the loop above needs every register
    float scales[SHARE], mine[HALVES * SHARE];
    [[unroll]] for (uint i = 0u; i < SHARE; ++i) {
        scales[i] = Floats(p.scales).at[min(row_at(first_tile, depth * SHARE + i), p.rows - 1u)];
    }
    UNROLL for (uint c = 0u; c < RESULT_TILES; ++c) {
        UNROLL for (uint r = 0u; r < ROW_TILES; ++r) {
            EACH_ELEMENT(e) {
                const uint number = (c * ROW_TILES + r) * ELEMENTS + e, owner = number / SHARE;
                EACH_HALF(h) {
                    const uint i = h * SHARE + number % SHARE;
                    const float sum = ELEMENT(sums[c + h * RESULT_TILES][r], e);
                    if (depth == owner) {
                        mine[i] = sum;
                    } else {
                        left[left_at(place, owner, i, depth - (depth > owner ? 1u : 0u))] = sum;
                    }
                }
            }
        }
    }
    if (DEPTH_WARPS > 1u) barrier();
    [[unroll]] for (uint i = 0u; i < SHARE; ++i) {
        [[unroll]] for (uint d = 0u; d + 1u < DEPTH_WARPS; ++d) {
            EACH_HALF(h) mine[h * SHARE + i] += left[left_at(place, depth, h * SHARE + i, d)];
        }
    }
    [[unroll]] for (uint i = 0u; i < SHARE; ++i) {
        const uint number = depth * SHARE + i;
        if (number < LANE_RESULTS) {
            put(split, row_at(first_tile, number), result_at(first_result, number), scales[i], mine[i],
                mine[i + (HALVES - 1u) * SHARE]);
        }
    }
    if (CHAINED) count_in_chain(p.chain);
}
