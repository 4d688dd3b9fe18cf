// Attention of many rows of a sequence: tiles of ROWS rows of one head pass over the positions they see, POSITIONS at a time.
// Scores and results are products of small matrices (fragments.glsl), in which keys and values are the "weights" and rows the
// "activations". Each subgroup ("warp") has FRAGMENT_ROWS rows to itself; the softmax goes through shared memory, where it
// is known which element belongs to which row.
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
layout(constant_id = 1) const uint LANES = 128u;
layout(constant_id = 2) const uint SUBGROUP = 32u;
layout(constant_id = 3) const uint FRAGMENT_COLS = 16u;
layout(constant_id = 4) const uint FRAGMENT_ROWS = 16u;
layout(constant_id = 5) const uint FRAGMENT_DEPTH = 16u;
layout(constant_id = 6) const uint KV_HEADS = 1u;
layout(constant_id = 7) const uint GROUP = 1u;  // query heads of a kv head
layout(constant_id = 8) const uint HEAD_DIM = 128u;
layout(constant_id = 9) const uint BLOCK_TOKENS = 32u;
layout(constant_id = 10) const uint ROWS = 64u;
layout(constant_id = 11) const uint POSITIONS = 32u;
layout(constant_id = 12) const uint FORMAT = 0u;
layout(constant_id = 13) const bool QUERIES_ASIDE = true;  // they stay in shared memory, not in registers
layout(constant_id = 14) const bool SINKS = false;
layout(constant_id = 15) const uint PARTS = 1u;  // workgroups that have a head's results among them, for which registers have
                                                 // no room; each makes all scores

#include "attention_tile.glsl"

const uint HEADS = KV_HEADS * GROUP;
const uint CHUNKS = HEAD_DIM / 8u;  // of 16 bytes
const uint PART_DIM = HEAD_DIM / PARTS;  // elements of a value that this workgroup has
const uint PART_CHUNKS = CHUNKS / PARTS;
const uint KEY_LOADS = (POSITIONS * CHUNKS + LANES - 1u) / LANES;
const uint PAIRS = POSITIONS / 2u;  // of values that lie side by side in shared memory
const uint VALUE_LOADS = (PAIRS * PART_CHUNKS + LANES - 1u) / LANES;  // of two chunks each
const uint ROW_LANES = SUBGROUP / FRAGMENT_ROWS;
const uint LANE_QUADS = POSITIONS / 4u / ROW_LANES;  // scores of a lane, in fours
const float NEVER = -3.0e38;
// The largest score that weights are taken from is only moved when scores have outgrown it by this much: weights of e^8 are
// no trouble to f16, and results are seldom scaled anew.
const float SLACK = 8.0;

// Shared memory in uvec4; rows are padded so that eight of them lie in different banks. Queries go through the place of keys
// and values, unless they have to stay.
const uint STRIDE = CHUNKS + 1u;
const uint SCORE_STRIDE = POSITIONS / 4u + 1u;
const uint WEIGHT_STRIDE = POSITIONS / 8u + 1u;
const uint KEYS = 0u;
const uint VALUES = KEYS + POSITIONS * STRIDE;  // [element][position], as products read them
const uint VALUE_STRIDE = POSITIONS / 8u + 1u;
const uint SCORES = VALUES + PART_DIM * VALUE_STRIDE;
const uint WEIGHTS = SCORES + ROWS * SCORE_STRIDE;
const uint END = WEIGHTS + ROWS * WEIGHT_STRIDE;
const uint QUERIES = QUERIES_ASIDE ? END : 0u;
shared uvec4 memory[QUERIES + ROWS * STRIDE > END ? QUERIES + ROWS * STRIDE : END];

#include "fragments.glsl"

#if MATRIX == KHR
#define WARP_BARRIER subgroupBarrier()
#define ANY_IN_WARP(x) subgroupAny(x)
#else
#define WARP_BARRIER barrier()
#define ANY_IN_WARP(x) true
#endif

uint lane = gl_LocalInvocationIndex;
uint head = gl_WorkGroupID.x / PARTS;
uint part = gl_WorkGroupID.x % PARTS;
uint warp_row = WARP * FRAGMENT_ROWS;
uint own_row = lane / ROW_LANES;  // of the softmax
uint own_quad = lane % ROW_LANES * LANE_QUADS;

uvec4 staged_keys[KEY_LOADS];
uvec4 staged_values[VALUE_LOADS][2];
ActivationFragment query[QUERIES_ASIDE ? 1u : HEAD_DIM / FRAGMENT_DEPTH];
Sums result[PART_DIM / FRAGMENT_COLS];
float largest = NEVER;
float sum = 0.0;  // of the lane's own scores

// Eight elements of a position. What lies past the last may never have been written.
uvec4 load_chunk(uint64_t base, uint position, uint chunk) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    return cache_chunk(shape, base, cache_element(shape, tile.sequence, min(position, last), head / GROUP) + chunk * 8u);
}

// Keys and values from `begin` on, on their way to shared memory.
void load_keys(uint begin) {
    UNROLL for (uint i = 0u; i < KEY_LOADS; ++i) {
        const uint at = i * LANES + lane;
        staged_keys[i] = load_chunk(p.cache_k, begin + at / CHUNKS, at % CHUNKS);
    }
}

void store_keys() {
    UNROLL for (uint i = 0u; i < KEY_LOADS; ++i) {
        const uint at = i * LANES + lane;
        if (at < POSITIONS * CHUNKS) memory[KEYS + at / CHUNKS * STRIDE + at % CHUNKS] = chunk_halves(staged_keys[i]);
    }
}

void load_values(uint begin) {
    UNROLL for (uint i = 0u; i < VALUE_LOADS; ++i) {
        const uint at = i * LANES + lane;
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            staged_values[i][j] = load_chunk(p.cache_v, begin + 2u * (at % PAIRS) + j,
                                             part * PART_CHUNKS + at / PAIRS % PART_CHUNKS);
        }
    }
}

// Across: both positions of an element together.
void store_values() {
    UNROLL for (uint i = 0u; i < VALUE_LOADS; ++i) {
        const uint at = i * LANES + lane, pair = at % PAIRS;
        if (at < PAIRS * PART_CHUNKS) {
            const uvec4 even = chunk_halves(staged_values[i][0]), odd = chunk_halves(staged_values[i][1]);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                const uint to = VALUES + (at / PAIRS * 8u + 2u * j) * VALUE_STRIDE + pair / 4u;
                memory[to][pair % 4u] = even[j] & 0xffffu | odd[j] << 16u;
                memory[to + VALUE_STRIDE][pair % 4u] = even[j] >> 16u | odd[j] & 0xffff0000u;
            }
        }
    }
}

void load_queries() {
    for (uint at = lane; at < ROWS * CHUNKS; at += LANES) {
        const uint row = tile.first_row + min(at / CHUNKS, tile.rows - 1u);
        memory[QUERIES + at / CHUNKS * STRIDE + at % CHUNKS] =
            Uint4s(p.q).at[(row * HEADS + head) * CHUNKS + at % CHUNKS];
    }
    if (QUERIES_ASIDE) return;
    barrier();
    UNROLL for (uint k = 0u; k < HEAD_DIM / FRAGMENT_DEPTH; ++k) {
        LOAD_ACTIVATIONS(query[k], QUERIES + warp_row * STRIDE + k * (FRAGMENT_DEPTH / 8u), STRIDE);
    }
    barrier();
}

void score_positions() {
    Sums scores[POSITIONS / FRAGMENT_COLS];
    UNROLL for (uint i = 0u; i < POSITIONS / FRAGMENT_COLS; ++i) CLEAR(scores[i]);
    UNROLL for (uint k = 0u; k < HEAD_DIM / FRAGMENT_DEPTH; ++k) {
        ActivationFragment x;
        if (QUERIES_ASIDE) {
            LOAD_ACTIVATIONS(x, QUERIES + warp_row * STRIDE + k * (FRAGMENT_DEPTH / 8u), STRIDE);
        } else {
            x = query[k];
        }
        UNROLL for (uint i = 0u; i < POSITIONS / FRAGMENT_COLS; ++i) {
            WeightFragment keys;
            LOAD_WEIGHTS(keys, KEYS + i * FRAGMENT_COLS * STRIDE + k * (FRAGMENT_DEPTH / 8u), STRIDE);
            MULTIPLY_ADD(scores[i], keys, x);
        }
    }
    UNROLL for (uint i = 0u; i < POSITIONS / FRAGMENT_COLS; ++i) {
        STORE_SUMS(scores[i], SCORES + warp_row * SCORE_STRIDE + i * (FRAGMENT_COLS / 4u), SCORE_STRIDE);
    }
}

// Weights of the lane's row from its scores. Returns what earlier results have to be scaled by.
float weigh(uint begin) {
    const uint position = tile.position + own_row;
    const uint from = first_seen(position);
    const uint scores_at = SCORES + own_row * SCORE_STRIDE + own_quad;
    vec4 scores[LANE_QUADS];
    float top = NEVER;
    [[unroll]] for (uint i = 0u; i < LANE_QUADS; ++i) {
        vec4 s = p.scale * uintBitsToFloat(memory[scores_at + i]);
        [[unroll]] for (uint j = 0u; j < 4u; ++j) {
            const uint at = begin + 4u * (own_quad + i) + j;
            if (p.softcap != 0.0) s[j] = p.softcap * safe_tanh(s[j] / p.softcap);
            if (at < from || at > position) s[j] = NEVER;
            top = max(top, s[j]);
        }
        scores[i] = s;
    }
    [[unroll]] for (uint lanes = 1u; lanes < ROW_LANES; lanes *= 2u) top = max(top, subgroupShuffleXor(top, lanes));
    float shrink = 1.0;
    if (top > largest + SLACK) {
        shrink = exp(largest - top);
        largest = top;
        sum *= shrink;
    }
    [[unroll]] for (uint i = 0u; i < LANE_QUADS; ++i) {
        // a row that has seen nothing yet has no largest score to compare with
        const vec4 weights = largest == NEVER ? vec4(0.0) : exp(scores[i] - largest);
        sum += weights.x + weights.y + weights.z + weights.w;
        const uint at = own_quad + i;
        memory[WEIGHTS + own_row * WEIGHT_STRIDE + at / 2u][at % 2u * 2u] = packFloat2x16(f16vec2(weights.xy));
        memory[WEIGHTS + own_row * WEIGHT_STRIDE + at / 2u][at % 2u * 2u + 1u] = packFloat2x16(f16vec2(weights.zw));
        memory[scores_at + i] = floatBitsToUint(vec4(shrink));
    }
    return shrink;
}

void add_positions(bool scale_results) {
    if (scale_results) {
        Sums factors;
        LOAD_SUMS(factors, SCORES + warp_row * SCORE_STRIDE, SCORE_STRIDE);
        UNROLL for (uint i = 0u; i < PART_DIM / FRAGMENT_COLS; ++i) { SCALE_SUMS(result[i], factors); }
    }
    UNROLL for (uint k = 0u; k < POSITIONS / FRAGMENT_DEPTH; ++k) {
        ActivationFragment weights;
        LOAD_ACTIVATIONS(weights, WEIGHTS + warp_row * WEIGHT_STRIDE + k * (FRAGMENT_DEPTH / 8u), WEIGHT_STRIDE);
        UNROLL for (uint i = 0u; i < PART_DIM / FRAGMENT_COLS; ++i) {
            WeightFragment values;
            LOAD_WEIGHTS(values, VALUES + i * FRAGMENT_COLS * VALUE_STRIDE + k * (FRAGMENT_DEPTH / 8u), VALUE_STRIDE);
            MULTIPLY_ADD(result[i], values, weights);
        }
    }
}

// The results, POSITIONS columns at a time by the place of the scores.
void put_results() {
    [[unroll]] for (uint lanes = 1u; lanes < ROW_LANES; lanes *= 2u) sum += subgroupShuffleXor(sum, lanes);
    if (SINKS) sum += exp(Floats(p.sinks).at[head] - largest);
    barrier();
    if (lane % ROW_LANES == 0u) memory[WEIGHTS + own_row].x = floatBitsToUint(1.0 / sum);
    UNROLL for (uint col = 0u; col < PART_DIM; col += POSITIONS) {
        UNROLL for (uint i = 0u; i < min(POSITIONS, PART_DIM - col) / FRAGMENT_COLS; ++i) {
            STORE_SUMS(result[col / FRAGMENT_COLS + i], SCORES + warp_row * SCORE_STRIDE + i * (FRAGMENT_COLS / 4u),
                       SCORE_STRIDE);
        }
        barrier();
        const uint quads = min(POSITIONS, PART_DIM - col) / 4u;
        for (uint i = 0u; i < ROWS * quads; i += LANES) {
            const uint row = (i + lane) / quads, quad = (i + lane) % quads;
            if (row < tile.rows) {
                const vec4 y = uintBitsToFloat(memory[SCORES + row * SCORE_STRIDE + quad]);
                put_activations(FORMAT, p.y, p.rows, HEADS * HEAD_DIM, tile.first_row + row,
                                (head * HEAD_DIM + part * PART_DIM + col) / 4u + quad, y * uintBitsToFloat(memory[WEIGHTS + row].x));
            }
        }
        barrier();
    }
}

void main() {
    if (gl_WorkGroupID.z >= StepHeader(p.step).tiles) return;
    tile = RowTiles(p.row_tiles).at[gl_WorkGroupID.z];
    const uint skipped = gl_WorkGroupID.y * ROWS;
    if (skipped >= tile.rows) return;
    take_rows(skipped, ROWS);

    load_keys(first);
    load_queries();
    UNROLL for (uint i = 0u; i < PART_DIM / FRAGMENT_COLS; ++i) CLEAR(result[i]);
    [[dont_unroll]] for (uint begin = first; begin <= last; begin += POSITIONS) {
        store_keys();
        load_values(begin);
        barrier();
        score_positions();
        store_values();
        load_keys(begin + POSITIONS);  // past the end too: a branch would be waited for
        barrier();
        const float shrink = weigh(begin);
        const bool scale_results = ANY_IN_WARP(shrink != 1.0);
        WARP_BARRIER;
        add_positions(scale_results);
    }
    put_results();
}
