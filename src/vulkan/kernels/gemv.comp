// y[o] = sum over i of x[i] * weight[o][i] + bias[o] for one row x of q8 activations. LANES_PER_ROW lanes make ROWS outputs
// at a time, with UNROLL blocks of each in flight; workgroups take tiles of outputs in turn. With GLU the matrix holds the
// gate's rows and then the up projection's, and y = activation(gate) * up is stored as q8 activations.
//
// Where the weights are TILED, each 32 lanes take four blocks of eight rows, which lie together; the outputs of a lane are
// eight apart.
//
// EXPERTS of a row whose routing is that of op::Route: with GLU, workgroups (x, slot) make row `slot` of y of the gate and up
// of the row's expert number `slot`. Without, the rows of x are what the experts made, and y is the sum of their products,
// each times its weight: as if the experts' matrices lay side by side.
//! WEIGHT: blocks
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
layout(constant_id = 9) const bool TILED = false;
#include "weights.glsl"
#include "activations.glsl"
#include "functions.glsl"
#include "dot.glsl"
#include "chain.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;
layout(constant_id = 1) const uint LANES_PER_ROW = 8u;
layout(constant_id = 2) const uint ROWS = 1u;
layout(constant_id = 3) const uint UNROLL = 4u;
layout(constant_id = 4) const uint BLOCKS = 1u;       // of 32 inputs
layout(constant_id = 5) const bool STAGED = true;     // x is kept in shared memory
layout(constant_id = 6) const uint SUBGROUP = 8u;
layout(constant_id = 7) const bool GLU = false;
layout(constant_id = 8) const uint ACTIVATION = 0u;   // the enum op::Activation
layout(constant_id = 10) const bool CLAMPED = false;  // loads go on past the end, at the last tile, in place of a branch
layout(constant_id = 11) const uint EXPERTS = 0u;     // of a row; 0: it has none

struct ExpertMatrices {
    uint64_t routing;
    uint64_t scales;  // of the products of each expert; 0: none. Without GLU
    uint stride;      // rows of the weight from one expert to the next
    uint up;          // and from a gate's row to its up row
};

layout(push_constant, scalar) uniform Params {
    Weight weight;
    uint64_t x;
    uint64_t bias;  // of all rows of the weight; 0: none
    uint64_t y;
    uint outputs;   // with GLU: of y, so half of the matrix's rows
    ExpertMatrices experts;
    Chain chain;
} p;

const uint GROUPS = LANES / LANES_PER_ROW;
const uint PER_OUTPUT = GLU ? 2u : 1u;  // rows of the matrix
const uint SUMS = ROWS * PER_OUTPUT;
const uint TILE = GROUPS * ROWS;  // outputs
const uint NEIGHBOURS = TILED ? 4u : LANES_PER_ROW < SUBGROUP ? LANES_PER_ROW : SUBGROUP;  // of the lanes of a row, that follow one another
const uint PARTS = LANES_PER_ROW / NEIGHBOURS;
const uint SLOTS = EXPERTS > 0u && !GLU ? EXPERTS : 1u;  // matrices side by side
const uint ALL = SLOTS * BLOCKS;
const bool EXACT = ALL % (LANES_PER_ROW * UNROLL) == 0u;

shared uvec4 staged_x[STAGED ? 2u * ALL : 1u];
shared vec2 staged_scale[STAGED ? ALL : 1u];
shared uint first_row[SLOTS];  // of each expert's matrix
shared float factor[SLOTS];    // of its products
shared float partial[PARTS > 1u ? LANES / NEIGHBOURS * SUMS : 1u];
shared float made[GLU ? TILE : 1u];

uint64_t x_at;

// Block `block` of all, of which each expert has its own.
uint slot_of(uint block) { return SLOTS == 1u ? 0u : block / BLOCKS; }

uvec4 load_x(uint half_, uint block) {
    const uint at = (slot_of(block) + half_) * BLOCKS + block;  // as rows lie one after another
    return STAGED ? staged_x[at] : MadeUint4s(x_at).at[at];
}
vec2 load_scale(uint block) {
    return STAGED ? staged_scale[block] : MadeFloat2s(x_at + uint64_t(ALL) * 32u).at[block];
}

void stage() {
    for (uint i = gl_LocalInvocationID.x; i < 2u * ALL; i += LANES) staged_x[i] = MadeUint4s(x_at).at[i];
    for (uint i = gl_LocalInvocationID.x; i < ALL; i += LANES) {
        staged_scale[i] = MadeFloat2s(x_at + uint64_t(ALL) * 32u).at[i];
    }
    barrier();
}

// Which matrices the row goes to. `waited` is what await_chain() gave.
void find_experts(uint64_t waited) {
    const uint64_t routing = p.experts.routing + waited;
    for (uint i = gl_LocalInvocationID.x; i < SLOTS; i += LANES) {
        const uint slot = GLU ? gl_WorkGroupID.y : i;
        const uint expert = uint(MadeFloats(routing).at[slot]);
        first_row[i] = expert * p.experts.stride;
        factor[i] = GLU ? 1.0 : MadeFloats(routing).at[EXPERTS + slot];
        if (p.experts.scales != 0u) factor[i] *= Floats(p.experts.scales).at[expert];
    }
    barrier();
}

// The product of a block of weights with a block of x: scale and sums of the halves as in vulkan/activations.h.
float block_product(Block w, uvec4 low, uvec4 high, vec2 scale_sums) {
    ivec2 dots = ivec2(0);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        dots.x = dot4(w.q[0][i], low[i], dots.x);
        dots.y = dot4(w.q[1][i], high[i], dots.y);
    }
    const vec2 sums = unpackHalf2x16(floatBitsToUint(scale_sums.y));
    const vec2 products = TWO_SCALES ? w.scale * vec2(dots) : vec2(w.scale.x * float(dots.x + dots.y), 0.0);
    if (!OFFSETS && ZERO == 0) return scale_sums.x * (products.x + products.y);
    const vec2 offsets = TWO_SCALES ? w.offset * sums : vec2(w.offset.x * (sums.x + sums.y), 0.0);
    return scale_sums.x * (products.x + products.y + offsets.x + offsets.y);
}

// Of the lanes of a row, which this one is.
uint lane_of_row() {
    const uint id = gl_LocalInvocationID.x;
    return TILED ? id / 32u % PARTS * 4u + id % 4u : id % LANES_PER_ROW;
}

// The output `r` of the lane, in its tile.
uint output_of(uint r) {
    const uint id = gl_LocalInvocationID.x;
    if (!TILED) return id / LANES_PER_ROW * ROWS + r;
    return id / (32u * PARTS) * 8u * ROWS + r * 8u + id / 4u % 8u;
}

// The row of the matrix, or of an expert's, behind sum `i`.
uint matrix_row(uint tile, uint i) {
    const uint output_ = min(tile * TILE + output_of(i / PER_OUTPUT), p.outputs - 1u);
    return GLU && i % 2u == 1u ? (EXPERTS > 0u ? p.experts.up : p.outputs) + output_ : output_;
}

// The blocks at hand: of a tile's rows, from block `begin` on.
RawBlock raw[UNROLL][SUMS];

void load_blocks(uint tile, uint begin) {
    uint row[SUMS];
    [[unroll]] for (uint i = 0u; i < SUMS; ++i) row[i] = matrix_row(tile, i);
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
        const uint block = begin + u * LANES_PER_ROW + lane_of_row();
        if (EXACT || block < ALL) {
            const uint first = EXPERTS > 0u ? first_row[slot_of(block)] : 0u;
            const uint within = block - slot_of(block) * BLOCKS;
            [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
                const uint at = first + row[i];
                raw[u][i] = load_raw(p.weight, place_of(at, within, BLOCKS), at * BLOCKS + within);
            }
        }
    }
}

void add_blocks(uint begin, inout float sum[SUMS]) {
    [[unroll]] for (uint u = 0u; u < UNROLL; ++u) {
        const uint block = begin + u * LANES_PER_ROW + lane_of_row();
        if (EXACT || block < ALL) {
            const float part = SLOTS > 1u ? factor[slot_of(block)] : 1.0;
            const uvec4 low = load_x(0u, block), high = load_x(1u, block);
            const vec2 scale_sums = load_scale(block);
            [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
                sum[i] += part * block_product(decode_block(raw[u][i]), low, high, scale_sums);
            }
        }
    }
}

// Every lane of a row gets the sums over all of them.
void add_lanes(inout float sum[SUMS]) {
    [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
        [[unroll]] for (uint step = 1u; step < NEIGHBOURS; step *= 2u) sum[i] += subgroupShuffleXor(sum[i], step);
    }
    if (PARTS > 1u) {
        const uint id = gl_LocalInvocationID.x;
        barrier();
        if (id % NEIGHBOURS == 0u) {
            [[unroll]] for (uint i = 0u; i < SUMS; ++i) partial[id / NEIGHBOURS * SUMS + i] = sum[i];
        }
        barrier();
        const uint first = TILED ? id / (32u * PARTS) * 8u * PARTS + id / 4u % 8u : id / LANES_PER_ROW * PARTS;
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) {
            sum[i] = 0.0;
            for (uint part = 0u; part < PARTS; ++part) {
                sum[i] += partial[(first + part * (TILED ? 8u : 1u)) * SUMS + i];
            }
        }
    }
}

float with_bias(float value, uint row) {
    if (SLOTS == 1u && EXPERTS > 0u && !GLU) value *= factor[0];
    if (p.bias == 0u) return value;
    if (EXPERTS == 0u) return value + Floats(p.bias).at[row];
    for (uint slot = 0u; slot < SLOTS; ++slot) value += factor[slot] * Floats(p.bias).at[first_row[slot] + row];
    return value;
}

// The tile's gated outputs, gathered so that eight neighbours quantise a block of 32. TILE is a multiple of 32.
void store_glu(uint tile, float sum[SUMS]) {
    barrier();
    if (lane_of_row() == 0u) {
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
            const float gate = with_bias(sum[2u * r], matrix_row(tile, 2u * r));
            const float up = with_bias(sum[2u * r + 1u], matrix_row(tile, 2u * r + 1u));
            made[output_of(r)] = gated(ACTIVATION, gate, up);
        }
    }
    barrier();
    const uint quad = gl_LocalInvocationID.x;
    if (quad < TILE / 4u) {
        const vec4 value = vec4(made[4u * quad], made[4u * quad + 1u], made[4u * quad + 2u], made[4u * quad + 3u]);
        store_q8(p.y, gl_NumWorkGroups.y, p.outputs, gl_WorkGroupID.y, tile * (TILE / 4u) + quad, value);
    }
}

void main() {
    const uint tiles = (p.outputs + TILE - 1u) / TILE;
    if (EXPERTS == 0u) load_blocks(gl_WorkGroupID.x, 0u);
    prepare_weights(p.weight, LANES);
    const uint64_t waited = await_chain(p.chain);
    x_at = p.x + waited;
    if (EXPERTS > 0u) {
        find_experts(waited);
        load_blocks(gl_WorkGroupID.x, 0u);
    }
    if (STAGED) stage();
    for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
        float sum[SUMS];
        [[unroll]] for (uint i = 0u; i < SUMS; ++i) sum[i] = 0.0;
        for (uint begin = 0u; begin < ALL; begin += LANES_PER_ROW * UNROLL) {
            add_blocks(begin, sum);
            // the next ones are under way while the sums of the lanes are added up
            const bool more = begin + LANES_PER_ROW * UNROLL < ALL;
            const uint next = more ? tile : tile + gl_NumWorkGroups.x;
            if (CLAMPED || next < tiles) {
                load_blocks(CLAMPED ? min(next, tiles - 1u) : next, more ? begin + LANES_PER_ROW * UNROLL : 0u);
            }
        }
        add_lanes(sum);
        if (GLU) {
            store_glu(tile, sum);
        } else if (lane_of_row() == 0u) {
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                const uint output_ = tile * TILE + output_of(r);
                if (output_ < p.outputs) FloatsOut(p.y).at[output_] = with_bias(sum[r], output_);
            }
        }
    }
    count_in_chain(p.chain);
}
