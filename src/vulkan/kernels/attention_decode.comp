// Attention of rows that each have a whole context to read: the visible positions of a row are split among workgroups, and
// the last of them to finish puts the parts together. One workgroup per split, kv head and row makes all query heads of the
// kv head, so that keys and values are read once. With MAKES it makes its queries from the products, and the workgroup that has
// the last position its key and value.
//
// MATRIX == NONE: a tile is TILE positions. Four lanes share a key; CHUNKS lanes (a team) share a value, eight elements each.
// Else each warp has its own tiles of 16 positions, which it multiplies as matrices (kernels/lane_matrix.glsl) of 16 query
// heads at most 8 of which are there: heads x elements by elements x positions, then elements x positions by positions x
// heads. For a cache of f16, heads of whole 128 elements, and blocks of whole tiles.
// The loads of the next tile are under way while this one is computed.
//! MATRIX: khr scalar none
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_memory_scope_semantics : require
#define NONE 2
#include "common.glsl"
#include "functions.glsl"
#include "step.glsl"
#include "attention_out.glsl"
#include "chain.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint INVOCATIONS = 128;
layout(constant_id = 2) const uint KV_HEADS = 1;
layout(constant_id = 3) const uint GROUP = 1;  // query heads of a kv head
layout(constant_id = 4) const uint HEAD_DIM = 128;
layout(constant_id = 5) const uint BLOCK_TOKENS = 32;
layout(constant_id = 6) const uint SPLITS = 1;  // at most
layout(constant_id = 7) const uint FORMAT = 0;
layout(constant_id = 8) const bool LISTED = false;  // only the step's single rows, by as many workgroups as there are
layout(constant_id = 9) const bool MAKES = false;
layout(constant_id = 10) const uint QKV_SPLITS = 1;  // and the rest as in kernels/heads.comp
layout(constant_id = 11) const uint PAIRS = 0;
layout(constant_id = 12) const bool INTERLEAVED = false;
layout(constant_id = 13) const uint V_SPLITS = 0;

layout(push_constant, scalar) uniform Params {
    uint64_t q;  // f16 [rows][KV_HEADS * GROUP][HEAD_DIM]; with MAKES: Heads
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t single_rows;
    uint64_t blocks;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t counters;  // u32 [slots][KV_HEADS], zero between dispatches; after COUNTER_BYTES
                        // vec2 [slots][KV_HEADS][SPLITS][GROUP]: largest score and sum of weights
    uint64_t parts;     // f32 [slots][KV_HEADS][SPLITS][GROUP][HEAD_DIM]: weighted sums of values
    uint64_t y;
    uint stride;
    uint rows;
    uint window;
    float scale;
    float softcap;
    Chain chain;  // only where every sequence has a single row
} p;

layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer Counters { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent buffer Tops { vec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) coherent buffer Parts { vec4 at[]; };

const uint CHUNKS = HEAD_DIM / 8u;  // of 16 bytes
const uint QUADS = HEAD_DIM / 4u;
const uint HEADS = KV_HEADS * GROUP;
const uint TOGETHER = MAKES ? INVOCATIONS / QUADS : 1u;
const uint ROUNDS = MAKES ? (GROUP + 2u + TOGETHER - 1u) / TOGETHER : 1u;
#include "heads.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer HeadsAt { Heads heads; };
#if MATRIX == NONE
const uint TILE = INVOCATIONS / 4u;
const uint KEY_CHUNKS = CHUNKS / 4u;  // of a lane
const uint TEAMS = INVOCATIONS / CHUNKS;
const uint TEAM_TILE = (TILE + TEAMS - 1u) / TEAMS;  // values of a lane
const uint AT_ONCE = INVOCATIONS * GROUP <= 512u ? GROUP : INVOCATIONS <= 256u ? 512u / INVOCATIONS : 1u;  // heads, in `gathered`
#else
const uint WARPS = INVOCATIONS / 32u;
const uint COLS = 16u, ROWS = 8u, DEPTH = 16u;  // of a matrix
#include "lane_matrix.glsl"
const uint TILE = 16u;
const uint KEY_CHUNKS = HEAD_DIM / 32u;  // of a lane, of a position
const uint VALUE_CHUNKS = HEAD_DIM / 64u;
#endif
const uint MIN_SUBGROUP = 8u;
const float NEVER = -3.0e38;
const uint COUNTER_BYTES = 65536u;

#if MATRIX == NONE
shared vec4 query[GROUP * QUADS];
shared float scores[2][GROUP][TILE];
shared float tops_of[2][GROUP][INVOCATIONS / MIN_SUBGROUP];  // the largest score of each subgroup
shared float sums[GROUP][TEAMS];
shared vec4 gathered[AT_ONCE * TEAMS * QUADS];
#else
shared vec2 warp_tops[WARPS][ROWS];  // of each head: the largest score, and the sum of weights
shared float gathered[WARPS][GROUP * HEAD_DIM];
#endif
shared uvec2 made_query[MAKES ? GROUP * QUADS : 1u];
shared vec2 split_tops[GROUP * SPLITS];
shared bool is_last;

struct Share {
    uint sequence;
    uint first;   // visible position
    uint splits;  // of the visible positions; those beyond have nothing to do
    uint begin;   // of this workgroup
    uint end;
    uint last;  // position, that of the row
};

uint lane = gl_LocalInvocationID.x;
uint kv_head = gl_WorkGroupID.x;
uint row_slot = gl_WorkGroupID.y;  // of what the splits leave for each other
uint split = gl_WorkGroupID.z;     // last, so that those with nothing to do come together: the others are spread evenly
uint row;
uint most_splits = SPLITS;
uint64_t ready = 0ul;  // of await_chain
// Whole blocks of the cache for each split.
Share find_share() {
    Share share;
    share.sequence = uint(Ints(p.sequence_of_row).at[row]);
    const uint last = share.last = uint(Ints(p.positions).at[row]);
    share.first = p.window == 0u ? 0u : max(last + 1u, p.window) - p.window;
    const uint first_block = share.first / BLOCK_TOKENS;
    const uint blocks = last / BLOCK_TOKENS + 1u - first_block;
    share.splits = min(blocks, most_splits);
    share.begin = (first_block + blocks * split / share.splits) * BLOCK_TOKENS;
    share.end = min((first_block + blocks * (split + 1u) / share.splits) * BLOCK_TOKENS, last + 1u);
    return share;
}

// The last position is of this step, all others of earlier ones.
bool has_last(Share share, uint tile) { return tile + TILE > share.last; }

uint head_of(uint number) {
    return number < GROUP ? kv_head * GROUP + number : HEADS + (number - GROUP) * KV_HEADS + kv_head;
}
void put_query(uint unused_row, uint number, uint quad, uvec2 halves) { made_query[number * QUADS + quad] = halves; }

// Eight elements of a head of the group.
uvec4 query_chunk(uint head, uint chunk) {
    if (MAKES) return uvec4(made_query[head * QUADS + 2u * chunk], made_query[head * QUADS + 2u * chunk + 1u]);
    return MadeUint4s(p.q + ready).at[(row * HEADS + kv_head * GROUP + head) * CHUNKS + chunk];
}

// Waits, and makes what this workgroup has to. What a lane loads of it afterwards, another may have written.
void await_inputs(Share share) {
    if (!MAKES) {
        ready = await_chain(p.chain);
        return;
    }
    const Heads heads = HeadsAt(p.q).heads;
    const HeadRow at =
        HeadRow(row, p.rows, share.sequence, share.last,
                CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM), p.cache_k, p.cache_v);
    const Prepared prepared = prepare_heads(heads, at, lane);
    ready = await_chain(p.chain);
    make_heads(heads, at, prepared, ready, lane, GROUP + (share.end > share.last ? 2u : 0u));
    memoryBarrierBuffer();
    barrier();
}

// Columns count the query heads' elements in fours.
void put_result(uint column, vec4 y) {
    put_activations(FORMAT, p.y, p.rows, HEADS * HEAD_DIM, row, kv_head * GROUP * QUADS + column, y);
}

#if MATRIX == NONE

uint team = lane / CHUNKS;
uint chunk = lane % CHUNKS;  // of a value

// The tile at hand, and what the lane has summed up: eight elements of each head over the positions of its team.
uvec4 keys[KEY_CHUNKS];
uvec4 values[TEAM_TILE];
float largest[GROUP];
float sum[GROUP];
vec4 low[GROUP];
vec4 high[GROUP];

uvec4 load_chunk(uint64_t base, Share share, uint position, uint i, bool made) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    // what lies past the ends may never have been written
    const uint at = clamp(position, share.first, share.end - 1u);
    const uint element = cache_element(shape, share.sequence, at, kv_head) + 8u * i;
    return made ? made_cache_chunk(shape, base + ready, element) : cache_chunk(shape, base, element);
}

void load_keys(Share share, uint tile) {
    if (has_last(share, tile)) {
        [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) {
            keys[i] = load_chunk(p.cache_k, share, tile + lane / 4u, 4u * i + lane % 4u, true);
        }
    } else {
        [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) {
            keys[i] = load_chunk(p.cache_k, share, tile + lane / 4u, 4u * i + lane % 4u, false);
        }
    }
}

void load_values(Share share, uint tile) {
    if (has_last(share, tile)) {
        [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) {
            values[i] = load_chunk(p.cache_v, share, tile + team * TEAM_TILE + i, chunk, true);
        }
    } else {
        [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) {
            values[i] = load_chunk(p.cache_v, share, tile + team * TEAM_TILE + i, chunk, false);
        }
    }
}

vec4 low_half(uvec4 halves) { return vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y)); }
vec4 high_half(uvec4 halves) { return vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w)); }

void load_query() {
    for (uint i = lane; i < GROUP * CHUNKS; i += INVOCATIONS) {
        const uvec4 halves = query_chunk(i / CHUNKS, i % CHUNKS);
        query[2u * i] = p.scale * low_half(halves);
        query[2u * i + 1u] = p.scale * high_half(halves);
    }
}

// The scores of a tile, and the largest of each subgroup, into shared memory.
void score_tile(Share share, uint tile, uint slot) {
    float s[GROUP];
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) s[g] = 0.0;
    [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) {
        const vec4 key_low = chunk_low(keys[i]), key_high = chunk_high(keys[i]);
        [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
            const uint at = g * QUADS + 2u * (4u * i + lane % 4u);
            s[g] += dot(key_low, query[at]) + dot(key_high, query[at + 1u]);
        }
    }
    const uint position = tile + lane / 4u;
    const bool visible = position >= share.first && position < share.end;
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
        s[g] += subgroupShuffleXor(s[g], 1u);
        s[g] += subgroupShuffleXor(s[g], 2u);
        if (p.softcap != 0.0) s[g] = p.softcap * safe_tanh(s[g] / p.softcap);
        if (!visible) s[g] = NEVER;
        if (lane % 4u == 0u) scores[slot][g][lane / 4u] = s[g];
        const float top = subgroupMax(s[g]);
        if (subgroupElect()) tops_of[slot][g][gl_SubgroupID] = top;
    }
}

// Adds the values of a tile, and shrinks what was summed before to the largest score so far.
void add_tile(uint slot) {
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
        float grown = largest[g];
        for (uint i = 0u; i < gl_NumSubgroups; ++i) grown = max(grown, tops_of[slot][g][i]);
        const float shrink = exp(largest[g] - grown);
        largest[g] = grown;
        sum[g] *= shrink;
        low[g] *= shrink;
        high[g] *= shrink;
    }
    [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) {
        const uint t = team * TEAM_TILE + i;
        if (t < TILE) {
            const vec4 value_low = chunk_low(values[i]), value_high = chunk_high(values[i]);
            [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
                const float weight = exp(scores[slot][g][t] - largest[g]);
                sum[g] += weight;
                low[g] += weight * value_low;
                high[g] += weight * value_high;
            }
        }
    }
}

void attend(Share share) {
    const bool old = !has_last(share, share.begin);  // it is there before the wait
    if (old) {
        load_keys(share, share.begin);
        load_values(share, share.begin);
    }
    await_inputs(share);
    if (!old) {
        load_keys(share, share.begin);
        load_values(share, share.begin);
    }
    load_query();
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
        largest[g] = NEVER;
        sum[g] = 0.0;
        low[g] = high[g] = vec4(0.0);
    }
    barrier();
    uint slot = 0u;
    for (uint tile = share.begin; tile < share.end; tile += TILE) {
        const bool more = tile + TILE < share.end;
        score_tile(share, tile, slot);
        if (more) load_keys(share, tile + TILE);
        barrier();  // one is enough: the next tile writes the other slot
        add_tile(slot);
        if (more) load_values(share, tile + TILE);
        slot ^= 1u;
    }
}

float sum_of_teams(uint g) {
    float total = 0.0;
    for (uint t = 0u; t < TEAMS; ++t) total += sums[g][t];
    return total;
}

// Adds up what the teams have: the result itself, or this split's part of it.
void gather(Share share) {
    const uint part = (row_slot * KV_HEADS + kv_head) * SPLITS + split;
    if (team < TEAMS && chunk == 0u) {
        [[unroll]] for (uint g = 0u; g < GROUP; ++g) sums[g][team] = sum[g];
    }
    [[unroll]] for (uint g0 = 0u; g0 < GROUP; g0 += AT_ONCE) {
        const uint heads = min(AT_ONCE, GROUP - g0);
        if (g0 != 0u) barrier();
        [[unroll]] for (uint g = 0u; g < heads; ++g) {
            if (team < TEAMS) {
                gathered[(g * TEAMS + team) * QUADS + 2u * chunk] = low[g0 + g];
                gathered[(g * TEAMS + team) * QUADS + 2u * chunk + 1u] = high[g0 + g];
            }
        }
        barrier();
        for (uint i = lane; i < heads * QUADS; i += INVOCATIONS) {
            vec4 y = vec4(0.0);
            for (uint t = 0u; t < TEAMS; ++t) y += gathered[(i / QUADS * TEAMS + t) * QUADS + i % QUADS];
            const uint column = g0 * QUADS + i;
            if (share.splits == 1u) {
                put_result(column, y / sum_of_teams(column / QUADS));
            } else {
                Parts(p.parts).at[part * GROUP * QUADS + column] = y;
            }
        }
    }
    if (share.splits == 1u) return;
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
        if (lane == g) Tops(p.counters + COUNTER_BYTES).at[part * GROUP + g] = vec2(largest[g], sum_of_teams(g));
    }
}

#else

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
                 min(share.end - 1u - begin, BLOCK_TOKENS - 1u), at - begin, has_last(share, at));
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
            put_result(column, y / top_and_sum(column / QUADS).y);
        } else {
            Parts(p.parts).at[part * GROUP * QUADS + column] = y;
        }
    }
    if (share.splits != 1u && lane < GROUP) Tops(p.counters + COUNTER_BYTES).at[part * GROUP + lane] = top_and_sum(lane);
}

#endif

// Whether all other splits have finished before this one.
bool finishes_last(Share share) {
    memoryBarrierBuffer();  // what the workgroup has written is there before it is counted
    barrier();
    if (lane == 0u) {
        const uint counter = row_slot * KV_HEADS + kv_head;
        is_last = atomicAdd(Counters(p.counters).at[counter], 1u) + 1u == share.splits;
        if (is_last) Counters(p.counters).at[counter] = 0u;
    }
    barrier();
    memoryBarrierBuffer();
    return is_last;
}

// Weighs what every split has found, in their order.
void combine(Share share) {
    const uint base = (row_slot * KV_HEADS + kv_head) * SPLITS;
    for (uint i = lane; i < share.splits * GROUP; i += INVOCATIONS) split_tops[i] = Tops(p.counters + COUNTER_BYTES).at[base * GROUP + i];
    barrier();
    for (uint column = lane; column < GROUP * QUADS; column += INVOCATIONS) {
        const uint g = column / QUADS;
        float top = NEVER;
        for (uint s = 0u; s < share.splits; ++s) top = max(top, split_tops[s * GROUP + g].x);
        float total = 0.0;
        vec4 y = vec4(0.0);
        [[unroll]] for (uint s = 0u; s < SPLITS; ++s) {
            if (s < share.splits) {
                const vec2 part = split_tops[s * GROUP + g];
                const float weight = exp(part.x - top);
                total += weight * part.y;
                y += weight * Parts(p.parts).at[(base + s) * GROUP * QUADS + column];
            }
        }
        put_result(column, y / total);
    }
}

void attend_row() {
    const Share share = find_share();
    if (split >= share.splits) return;
    attend(share);
    gather(share);
    if (share.splits != 1u && finishes_last(share)) combine(share);
}

void main() {
    if (!LISTED) {
        row = gl_WorkGroupID.y;
        if (row < StepHeader(p.step).rows) attend_row();  // a bucket has more rows than the step
        count_in_chain(p.chain);
        return;
    }
    const uint rows = StepHeader(p.step).single_rows;
    for (uint i = gl_WorkGroupID.y; i < rows; i += gl_NumWorkGroups.y) {
        row = Uints(p.single_rows).at[i];
        attend_row();
        most_splits = 1u;  // the slot may still be in use; and so many rows fill the device by themselves
        barrier();         // before shared memory is written for the next
    }
}
