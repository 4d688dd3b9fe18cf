// Attention of single rows (attention_row.glsl), for caches and heads of any kind: a tile is TILE positions. Four lanes share a
// key; CHUNKS lanes (a team) share a value, eight elements each. The loads of the next tile are under way while this one is
// computed.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "attention_row.glsl"

const uint TILE = INVOCATIONS / 4u;
const uint KEY_CHUNKS = CHUNKS / 4u;  // of a lane
const uint TEAMS = INVOCATIONS / CHUNKS;
const uint TEAM_TILE = (TILE + TEAMS - 1u) / TEAMS;  // values of a lane
const uint AT_ONCE = INVOCATIONS * GROUP <= 512u ? GROUP : INVOCATIONS <= 256u ? 512u / INVOCATIONS : 1u;  // heads, in `gathered`
const uint MIN_SUBGROUP = 8u;

shared vec4 query[GROUP * QUADS];
shared float scores[2][GROUP][TILE];
shared float tops_of[2][GROUP][INVOCATIONS / MIN_SUBGROUP];  // the largest score of each subgroup
shared float sums[GROUP][TEAMS];
shared vec4 gathered[AT_ONCE * TEAMS * QUADS];

uint team = lane / CHUNKS;
uint chunk = lane % CHUNKS;  // of a value

// The tile at hand, and what the lane has summed up: eight elements of each head over the positions of its team.
uvec4 keys[KEY_CHUNKS];
uvec4 values[TEAM_TILE];
float largest[GROUP];
float sum[GROUP];
vec4 low[GROUP];
vec4 high[GROUP];

const bool IN_ONE_BLOCK = BLOCK_TOKENS % TILE == 0u;  // all positions of a tile

// The block of the cache that a position lies in, looked up once for a tile where that is enough.
uint block_of(Share share, uint position) {
    return Uints(p.blocks).at[share.sequence * p.stride + position / BLOCK_TOKENS];
}
uint block_of_tile(Share share, uint tile) { return IN_ONE_BLOCK ? block_of(share, min(tile, share.end - 1u)) : 0u; }

// The first element of the position `i` of a tile, in `block` if that has all of them.
uint element_of(Share share, uint tile, uint i, uint block) {
    // what lies past the ends may never have been written
    const uint position = clamp(tile + i, share.first, share.end - 1u);
    const uint within = IN_ONE_BLOCK ? block : block_of(share, position);
    return ((within * KV_HEADS + kv_head) * BLOCK_TOKENS + position % BLOCK_TOKENS) * HEAD_DIM;
}

uvec4 load_chunk(uint64_t base, uint element, bool made) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    return made ? made_cache_chunk(shape, base + ready, element) : cache_chunk(shape, base, element);
}

void load_keys(Share share, uint tile) {
    const uint at = element_of(share, tile, lane / 4u, block_of_tile(share, tile)) + 8u * (lane % 4u);
    if (has_last(share, tile, TILE)) {
        [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) keys[i] = load_chunk(p.cache_k, at + 32u * i, true);
    } else {
        [[unroll]] for (uint i = 0u; i < KEY_CHUNKS; ++i) keys[i] = load_chunk(p.cache_k, at + 32u * i, false);
    }
}

void load_values(Share share, uint tile) {
    const uint block = block_of_tile(share, tile);
    uint at[TEAM_TILE];
    [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) {
        at[i] = element_of(share, tile, team * TEAM_TILE + i, block) + 8u * chunk;
    }
    if (has_last(share, tile, TILE)) {
        [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) values[i] = load_chunk(p.cache_v, at[i], true);
    } else {
        [[unroll]] for (uint i = 0u; i < TEAM_TILE; ++i) values[i] = load_chunk(p.cache_v, at[i], false);
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
    const bool old = !has_last(share, share.begin, TILE);  // it is there before the wait
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
    if (SINKS && share.splits == 1u && team == 0u) {
        [[unroll]] for (uint g = 0u; g < GROUP; ++g) sum[g] += sink_weight(g, largest[g]);
    }
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
                Parts(parts_at()).at[part * GROUP * QUADS + column] = y;
            }
        }
    }
    if (share.splits == 1u) return;
    [[unroll]] for (uint g = 0u; g < GROUP; ++g) {
        if (lane == g) Tops(p.counters + COUNTER_BYTES).at[part * GROUP + g] = vec2(largest[g], sum_of_teams(g));
    }
}

void main() { attend_rows(); }
