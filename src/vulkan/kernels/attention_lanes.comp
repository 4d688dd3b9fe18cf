// Attention of many rows of a sequence, as attention_prefill.comp makes it, for devices of which it is known what elements of a
// matrix each lane has (lane_matrix.glsl): scores become weights where they are, and never go through memory. A warp has 16
// rows of one head, all warps of a workgroup pass over the same positions, POSITIONS at a time.
//
// Products are queries x elements by elements x positions, then queries x positions by positions x elements. Four lanes share
// a row of each, and it is free which elements are an input: keys and queries lie in memory in chunks of eight, one to a lane.
//! MATRIX: khr scalar
#version 460
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_vote : require
#include "common.glsl"
#include "functions.glsl"
#include "step.glsl"
#include "attention_out.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint INVOCATIONS = 128u;
layout(constant_id = 2) const uint KV_HEADS = 1u;
layout(constant_id = 3) const uint GROUP = 1u;  // query heads of a kv head
layout(constant_id = 4) const uint HEAD_DIM = 128u;
layout(constant_id = 5) const uint BLOCK_TOKENS = 32u;
layout(constant_id = 6) const uint POSITIONS = 32u;
layout(constant_id = 7) const uint FORMAT = 0u;
layout(constant_id = 8) const bool SINKS = false;

#include "attention_tile.glsl"

const uint WARPS = INVOCATIONS / 32u;
const uint COLS = 16u, ROWS = 8u, DEPTH = 16u;  // of a matrix
#include "lane_matrix.glsl"

const uint HEADS = KV_HEADS * GROUP;
const uint WARP_ROWS = 16u;
const uint CHUNKS = HEAD_DIM / 8u;           // of 16 bytes
const uint FOURS = POSITIONS / 4u * CHUNKS;  // chunks of four positions, which a lane brings to shared memory together
const uint LOADS = (FOURS + INVOCATIONS - 1u) / INVOCATIONS;
const float LOG2_E = 1.44269504088896;
const float NEVER = -3.0e38;
const float UNKNOWN = -1.0e30;  // far above it, so that weights of nothing are zero before anything is seen
// The largest score that weights are taken from is only moved when scores have outgrown it by this much: weights of 2^11 are
// no trouble to f16, and results are seldom scaled anew.
const float SLACK = 11.0;

// Keys row by row. Of values, row 4 k + t has positions 16 k + 2 t, the next, and both of eight further, in the order in which a
// lane puts them into a matrix: a uvec4 has them of elements 2 w and 2 w + 1 of a chunk, those of all chunks for w = 0 come
// first, then those for w = 1 and so on. Rows are as long as it takes for eight lanes to read from different banks.
const uint KEY_STRIDE = CHUNKS + 4u;
const uint VALUE_STRIDE = HEAD_DIM / 2u + 2u;
shared uvec4 keys[POSITIONS * KEY_STRIDE];
shared uvec4 values[POSITIONS / 4u * VALUE_STRIDE];

#if MATRIX == KHR
#define ANY_IN_WARP(x) subgroupAny(x)
#else
#define ANY_IN_WARP(x) true
#endif

uint head = gl_WorkGroupID.x;
uint g = LANE / 4u;
uint t = LANE % 4u;

uint own;    // position of the warp's first row
uvec4 staged[LOADS][4];
WeightMatrix query[HEAD_DIM / 16u];
SumMatrix scores[POSITIONS / 8u];
SumMatrix result[HEAD_DIM / 8u];  // number 2 d + j has, of uvec4 8 d + n of `values`, the element 2 w + j
// Of rows g and g + 8, in powers of two.
float largest[2] = {UNKNOWN, UNKNOWN};
float sum[2] = {0.0, 0.0};  // of the lane's own weights

// Number `i` of four positions that belong together.
uint position_of(uint four, uint i) { return four / 4u * 16u + four % 4u * 2u + i % 2u + i / 2u * 8u; }

// Keys or values from `begin` on, on their way to shared memory.
void load_positions(uint64_t base, uint begin) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    UNROLL for (uint n = 0u; n < LOADS; ++n) {
        const uint at = n * INVOCATIONS + gl_LocalInvocationIndex;
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            // what lies past the last position may never have been written
            const uint position = min(begin + position_of(at / CHUNKS, i), last);
            const uint element = cache_element(shape, tile.sequence, position, head / GROUP);
            staged[n][i] = cache_chunk(shape, base, element + at % CHUNKS * 8u);
        }
    }
}

void store_keys() {
    UNROLL for (uint n = 0u; n < LOADS; ++n) {
        const uint at = n * INVOCATIONS + gl_LocalInvocationIndex;
        if (at < FOURS) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                keys[position_of(at / CHUNKS, i) * KEY_STRIDE + at % CHUNKS] = chunk_halves(staged[n][i]);
            }
        }
    }
}

// The low halves of two words, and the high ones.
uvec2 interleave(uint a, uint b) { return uvec2((a & 0xffffu) | (b << 16), (a >> 16) | (b & 0xffff0000u)); }

void store_values() {
    UNROLL for (uint n = 0u; n < LOADS; ++n) {
        const uint at = n * INVOCATIONS + gl_LocalInvocationIndex;
        if (at < FOURS) {
            uvec4 halves[4];
            [[unroll]] for (uint i = 0u; i < 4u; ++i) halves[i] = chunk_halves(staged[n][i]);
            [[unroll]] for (uint w = 0u; w < 4u; ++w) {
                const uvec2 near = interleave(halves[0][w], halves[1][w]), far = interleave(halves[2][w], halves[3][w]);
                values[at / CHUNKS * VALUE_STRIDE + w * CHUNKS + at % CHUNKS] = uvec4(near.x, far.x, near.y, far.y);
            }
        }
    }
}

void load_queries() {
    UNROLL for (uint c = 0u; c < HEAD_DIM / 32u; ++c) {
        uvec4 rows[2];
        [[unroll]] for (uint h = 0u; h < 2u; ++h) {
            const uint row = tile.first_row + min(WARP * WARP_ROWS + g + 8u * h, tile.rows - 1u);
            rows[h] = Uint4s(p.q).at[(row * HEADS + head) * CHUNKS + 4u * c + t];
        }
        [[unroll]] for (uint s = 0u; s < 2u; ++s) {
            [[unroll]] for (uint h = 0u; h < 2u; ++h) {
                PUT_PAIR(query[2u * c + s], 4u * h, rows[h][2u * s]);
                PUT_PAIR(query[2u * c + s], 4u * h + 2u, rows[h][2u * s + 1u]);
            }
        }
    }
}

void score_positions() {
    UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) CLEAR(scores[b]);
    UNROLL for (uint c = 0u; c < HEAD_DIM / 32u; ++c) {
        uvec4 chunks[POSITIONS / 8u];
        UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) chunks[b] = keys[(8u * b + g) * KEY_STRIDE + 4u * c + t];
        [[unroll]] for (uint s = 0u; s < 2u; ++s) {
            UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
                ActivationMatrix key;
                PUT_PAIR(key, 0u, chunks[b][2u * s]);
                PUT_PAIR(key, 2u, chunks[b][2u * s + 1u]);
                MULTIPLY_ADD(scores[b], query[2u * c + s], key);
            }
        }
    }
}

// Of the lane's rows.
void hide_unseen(uint begin) {
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        const uint position = own + g + 8u * h, from = first_seen(position);
        UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
            [[unroll]] for (uint e = 0u; e < 2u; ++e) {
                const uint at = begin + 8u * b + 2u * t + e;
                if (at < from || at > position) ELEMENT(scores[b], 2u * h + e) = NEVER;
            }
        }
    }
}

// In powers of two.
void scale_scores() {
    const float scale = p.softcap == 0.0 ? LOG2_E * p.scale : p.scale / p.softcap;
    UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
        [[unroll]] for (uint e = 0u; e < 4u; ++e) ELEMENT(scores[b], e) *= scale;
    }
    if (p.softcap == 0.0) return;
    UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
        [[unroll]] for (uint e = 0u; e < 4u; ++e) {
            ELEMENT(scores[b], e) = LOG2_E * p.softcap * safe_tanh(ELEMENT(scores[b], e));
        }
    }
}

// Scores become weights, and what was summed before shrinks where they have outgrown it.
void weigh() {
    float shrink[2];
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        float top = NEVER;
        UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
            top = max(top, max(ELEMENT(scores[b], 2u * h), ELEMENT(scores[b], 2u * h + 1u)));
        }
        top = max(top, subgroupShuffleXor(top, 1u));
        top = max(top, subgroupShuffleXor(top, 2u));
        const float grown = top > largest[h] + SLACK ? top : largest[h];
        shrink[h] = exp2(largest[h] - grown);
        largest[h] = grown;
        sum[h] *= shrink[h];
        UNROLL for (uint b = 0u; b < POSITIONS / 8u; ++b) {
            [[unroll]] for (uint e = 0u; e < 2u; ++e) {
                const float weight = exp2(ELEMENT(scores[b], 2u * h + e) - grown);
                sum[h] += weight;
                ELEMENT(scores[b], 2u * h + e) = weight;
            }
        }
    }
    if (ANY_IN_WARP(shrink[0] != 1.0 || shrink[1] != 1.0)) {
        UNROLL for (uint i = 0u; i < HEAD_DIM / 8u; ++i) EACH_ELEMENT(e) ELEMENT(result[i], e) *= shrink[e / 2u];
    }
}

void add_values() {
    UNROLL for (uint k = 0u; k < POSITIONS / 16u; ++k) {
        WeightMatrix weights;
        [[unroll]] for (uint e = 0u; e < 4u; e += 2u) {
            [[unroll]] for (uint b = 0u; b < 2u; ++b) {
                const f16vec2 pair = f16vec2(ELEMENT(scores[2u * k + b], e), ELEMENT(scores[2u * k + b], e + 1u));
                PUT_PAIR(weights, 2u * e + 2u * b, packFloat2x16(pair));
            }
        }
        UNROLL for (uint d = 0u; d < HEAD_DIM / 16u; ++d) {
            const uvec4 two = values[(4u * k + t) * VALUE_STRIDE + 8u * d + g];
            [[unroll]] for (uint j = 0u; j < 2u; ++j) {
                ActivationMatrix value;
                PUT_PAIR(value, 0u, two[2u * j]);
                PUT_PAIR(value, 2u, two[2u * j + 1u]);
                MULTIPLY_ADD(result[2u * d + j], weights, value);
            }
        }
    }
}

void put_results() {
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        sum[h] += subgroupShuffleXor(sum[h], 1u);
        sum[h] += subgroupShuffleXor(sum[h], 2u);
        if (SINKS) sum[h] += exp2(LOG2_E * Floats(p.sinks).at[head] - largest[h]);
        const uint row = WARP * WARP_ROWS + g + 8u * h;
        const float share = 1.0 / sum[h];
        if (row < tile.rows) {
            UNROLL for (uint c = 0u; c < CHUNKS / 8u; ++c) {
                [[unroll]] for (uint n = 0u; n < 4u; ++n) {
                    const uint first_word = n / 2u * 2u, e = 2u * h + n % 2u;
                    vec4 y;
                    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                        y[i] = share * ELEMENT(result[2u * ((first_word + i / 2u) * (CHUNKS / 8u) + c) + i % 2u], e);
                    }
                    const uint chunk = 8u * c + 2u * t + n % 2u;
                    put_activations(FORMAT, p.y, p.rows, HEADS * HEAD_DIM, tile.first_row + row,
                                    head * (HEAD_DIM / 4u) + 2u * chunk + n / 2u, y);
                }
            }
        }
    }
}

void main() {
    if (gl_WorkGroupID.z >= StepHeader(p.step).tiles) return;
    tile = RowTiles(p.row_tiles).at[gl_WorkGroupID.z];
    const uint skipped = gl_WorkGroupID.y * WARPS * WARP_ROWS;
    if (skipped >= tile.rows) return;
    take_rows(skipped, WARPS * WARP_ROWS);
    own = tile.position + WARP * WARP_ROWS;
    const uint own_last = own + WARP_ROWS - 1u;

    load_positions(p.cache_k, first);
    load_queries();
    UNROLL for (uint i = 0u; i < HEAD_DIM / 8u; ++i) CLEAR(result[i]);
    [[dont_unroll]] for (uint begin = first; begin <= last; begin += POSITIONS) {
        const bool sees = WARPS_IN_STEP || (begin <= own_last && begin + POSITIONS > first_seen(own));
        const bool sees_all = begin + POSITIONS <= own + 1u && begin >= first_seen(own_last);
        store_keys();
        load_positions(p.cache_v, begin);
        barrier();
        if (sees) {
            score_positions();
            scale_scores();
            if (!sees_all) hide_unseen(begin);
            weigh();
        }
        store_values();
        if (begin + POSITIONS <= last) load_positions(p.cache_k, begin + POSITIONS);
        barrier();
        if (sees) add_values();
    }
    put_results();
}
