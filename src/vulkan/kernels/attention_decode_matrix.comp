// Attention of single rows (attention_row.glsl) by matrices (lane_matrix.glsl), for a cache of f16, heads of whole 128 elements,
// and blocks of whole tiles: each warp has its own tiles of 16 positions, which it multiplies as matrices of 16 query heads at
// most 8 of which are there: heads x elements by elements x positions, then elements x positions by positions x heads. The
// loads of the next tile are under way while this one is computed.
//! MATRIX: khr scalar
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_memory_scope_semantics : require
#include "attention_row.glsl"

const uint WARPS = INVOCATIONS / 32u;
const uint COLS = 16u, ROWS = 8u, DEPTH = 16u;  // of a matrix
#include "lane_matrix.glsl"
const uint TILE = 16u;
const uint KEY_CHUNKS = HEAD_DIM / 32u;  // of a lane, of a position
const uint VALUE_CHUNKS = HEAD_DIM / 64u;

shared vec2 warp_tops[WARPS][ROWS];  // of each head: the largest score, and the sum of weights
shared float gathered[WARPS][GROUP * HEAD_DIM];

uint t_lane = lane % 4u;  // of the four that share a row of a matrix
uint g_lane = lane % 32u / 4u;

// The tile at hand, of the warp: chunks of 32 i + 8 t elements of the keys of positions g and g + 8, and chunks 8 c + g of the
// values of positions 2t, 2t + 1, 2t + 8 and 2t + 9.
uvec4 keys[KEY_CHUNKS][2];
uvec4 values[VALUE_CHUNKS][4];
float largest;  // of head g
float sum;      // of its weights of this lane's positions

uvec4 load_chunk(uint64_t base, uint element, bool made) {
    return made ? MadeUint4s(base + ready).at[element / 8u] : Uint4s(base).at[element / 8u];
}

// Where positions of a tile lie: all in one block of the cache.
struct Place {
    uint first_element;  // of the head in the block
    uint least, most;    // slots that may be read: what lies past the ends may never have been written
    uint slot;           // of the tile's first position
    bool made;
};
Place find_place(Share share, uint tile) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    const uint at = min(tile, (share.end - 1u) / TILE * TILE);  // beyond, the last again
    const uint begin = at / BLOCK_TOKENS * BLOCK_TOKENS;
    return Place(cache_element(shape, share.sequence, begin, kv_head), max(share.first, begin) - begin,
                 min(share.end - 1u - begin, BLOCK_TOKENS - 1u), at - begin, has_last(share, at, TILE));
}

uint slot_element(Place place, uint i) {
    return place.first_element + clamp(place.slot + i, place.least, place.most) * HEAD_DIM;
}

void load_keys(Place place, bool made) {
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        const uint element = slot_element(place, g_lane + 8u * h) + 8u * t_lane;
        [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) keys[i][h] = load_chunk(p.cache_k, element + 32u * i, made);
    }
}

void load_values(Place place, bool made) {
    [[unroll]] for (uint n = 0u; n < 4u; ++n) {
        const uint element = slot_element(place, 2u * t_lane + n % 2u + n / 2u * 8u) + 8u * g_lane;
        [[unroll]] for (uint c = 0u; c < VALUE_CHUNKS; ++c) {
            values[c][n] = load_chunk(p.cache_v, element + 64u * c, made);
        }
    }
}

void load_keys(Place place) {
    if (place.made) load_keys(place, true);
    else load_keys(place, false);
}
void load_values(Place place) {
    if (place.made) load_values(place, true);
    else load_values(place, false);
}

// Half `j` of eight, of two positions.
uint value_pair(uvec4 a, uvec4 b, uint j) {
    return j % 2u == 0u ? (a[j / 2u] & 0xffffu) | (b[j / 2u] << 16) : (a[j / 2u] >> 16) | (b[j / 2u] & 0xffff0000u);
}

void load_query(out uvec4 query[KEY_CHUNKS]) {
    [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) {
        const uvec4 halves = query_chunk(min(g_lane, GROUP - 1u), 4u * i + t_lane);
        query[i] = g_lane < GROUP ? halves : uvec4(0u);
    }
}

// The weights of this lane's positions of the tile for head g, and by what the heads' sums so far are to shrink.
vec4 weigh(Share share, uint tile, uvec4 query[KEY_CHUNKS], out float shrink) {
    vec4 s;
    [[unroll]] for (uint h = 0u; h < 2u; ++h) {
        SumMatrix scores;
        CLEAR(scores);
        UNROLL for (uint i = 0u; i < KEY_CHUNKS; ++i) {
            [[unroll]] for (uint half_ = 0u; half_ < 2u; ++half_) {
                WeightMatrix q;
                ActivationMatrix k;
                [[unroll]] for (uint e = 0u; e < 2u; ++e) {
                    PUT_PAIR(q, 2u * e, query[i][2u * half_ + e]);
                    PUT_PAIR(q, 4u + 2u * e, 0u);
                    PUT_PAIR(k, 2u * e, keys[i][h][2u * half_ + e]);
                }
                MULTIPLY_ADD(scores, q, k);
            }
        }
        [[unroll]] for (uint e = 0u; e < 2u; ++e) {
            float score = p.scale * ELEMENT(scores, e);
            if (p.softcap != 0.0) score = p.softcap * safe_tanh(score / p.softcap);
            const uint position = tile + 8u * h + 2u * t_lane + e;
            s[2u * h + e] = position >= share.first && position < share.end ? score : NEVER;
        }
    }
    float top = max(max(s.x, s.y), max(s.z, s.w));
    top = max(top, subgroupShuffleXor(top, 1u));
    top = max(top, subgroupShuffleXor(top, 2u));
    const float grown = max(largest, top);
    shrink = exp(largest - grown);
    largest = grown;
    const vec4 weights = exp(s - grown);
    sum = sum * shrink + weights.x + weights.y + weights.z + weights.w;
    return weights;
}

SumMatrix results[HEAD_DIM / 16u];  // elements x heads: of tile 8 d + j, elements 128 d + 8 g + j and those 64 further

void add_values(vec4 weights, float shrink) {
    const float shrinks[2] = {FROM_LANE(shrink, 8u * t_lane), FROM_LANE(shrink, 8u * t_lane + 4u)};
    ActivationMatrix w;
    PUT_PAIR(w, 0u, packFloat2x16(f16vec2(weights.xy)));
    PUT_PAIR(w, 2u, packFloat2x16(f16vec2(weights.zw)));
    UNROLL for (uint d = 0u; d < HEAD_DIM / 128u; ++d) {
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            EACH_ELEMENT(e) ELEMENT(results[8u * d + j], e) *= shrinks[e % 2u];
            WeightMatrix v;
            [[unroll]] for (uint n = 0u; n < 2u; ++n) {
                PUT_PAIR(v, 2u * n, value_pair(values[2u * d][2u * n], values[2u * d][2u * n + 1u], j));
                PUT_PAIR(v, 4u + 2u * n, value_pair(values[2u * d + 1u][2u * n], values[2u * d + 1u][2u * n + 1u], j));
            }
            MULTIPLY_ADD(results[8u * d + j], v, w);
        }
    }
}

// All warps take as many turns, those that have no tile any more with weights of nothing.
void attend(Share share) {
    largest = NEVER;
    sum = 0.0;
    const uint own = share.begin + WARP * TILE;
    const Place first = find_place(share, own);
    if (!first.made) {  // it is there before the wait
        load_keys(first, false);
        load_values(first, false);
    }
    await_inputs(share);
    if (first.made) {
        load_keys(first, true);
        load_values(first, true);
    }
    uvec4 query[KEY_CHUNKS];
    load_query(query);
    UNROLL for (uint m = 0u; m < HEAD_DIM / 16u; ++m) CLEAR(results[m]);
    for (uint turn = share.begin; turn < share.end; turn += WARPS * TILE) {
        const bool more = turn + WARPS * TILE < share.end;
        const Place next = find_place(share, turn + WARPS * TILE + WARP * TILE);
        float shrink;
        const vec4 weights = weigh(share, turn + WARP * TILE, query, shrink);
        if (more) load_keys(next);
        add_values(weights, shrink);
        if (more) load_values(next);
    }
}

// Of a head, over all warps.
vec2 top_and_sum(uint head) {
    float top = NEVER;
    for (uint w = 0u; w < WARPS; ++w) top = max(top, warp_tops[w][head].x);
    float total = 0.0;
    for (uint w = 0u; w < WARPS; ++w) total += warp_tops[w][head].y * exp(warp_tops[w][head].x - top);
    return vec2(top, total);
}

// Adds up what the warps have: the result itself, or this split's part of it.
void gather(Share share) {
    const uint part = (row_slot * KV_HEADS + kv_head) * SPLITS + split;
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    if (t_lane == 0u) warp_tops[WARP][g_lane] = vec2(largest, sum);
    barrier();
    [[unroll]] for (uint e = 0u; e < 2u; ++e) {
        const uint head = 2u * t_lane + e;
        if (head < GROUP) {
            const float weight = exp(warp_tops[WARP][head].x - top_and_sum(head).x);
            UNROLL for (uint m = 0u; m < HEAD_DIM / 16u; ++m) {
                const uint element = head * HEAD_DIM + m / 8u * 128u + 8u * g_lane + m % 8u;
                gathered[WARP][element] = weight * ELEMENT(results[m], e);
                gathered[WARP][element + 64u] = weight * ELEMENT(results[m], e + 2u);
            }
        }
    }
    barrier();
    for (uint column = lane; column < GROUP * QUADS; column += INVOCATIONS) {
        vec4 y = vec4(0.0);
        for (uint w = 0u; w < WARPS; ++w) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) y[i] += gathered[w][4u * column + i];
        }
        if (share.splits == 1u) {
            const vec2 all = top_and_sum(column / QUADS);
            float total = all.y;
            if (SINKS) total += sink_weight(column / QUADS, all.x);
            put_result(column, y / total);
        } else {
            Parts(parts_at()).at[part * GROUP * QUADS + column] = y;
        }
    }
    if (share.splits != 1u && lane < GROUP) Tops(p.counters + COUNTER_BYTES).at[part * GROUP + lane] = top_and_sum(lane);
}

void main() { attend_rows(); }
