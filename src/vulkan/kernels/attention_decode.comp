// Attention of rows that each have a whole context to read: the visible positions of a row are split among workgroups, and
// the last of them to finish puts the parts together. One workgroup per split, kv head and row makes all query heads of the
// kv head, so that keys and values are read once.
//
// A tile is TILE positions. Four lanes share a key; CHUNKS lanes (a team) share a value, eight elements each. The loads of
// the next tile are under way while this one is computed.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"
#include "functions.glsl"
#include "step.glsl"
#include "attention_out.glsl"
#include "chain.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint LANES = 128;
layout(constant_id = 2) const uint KV_HEADS = 1;
layout(constant_id = 3) const uint GROUP = 1;  // query heads of a kv head
layout(constant_id = 4) const uint HEAD_DIM = 128;
layout(constant_id = 5) const uint BLOCK_TOKENS = 32;
layout(constant_id = 6) const uint SPLITS = 1;  // at most
layout(constant_id = 7) const uint FORMAT = 0;
layout(constant_id = 8) const bool LISTED = false;  // only the step's single rows, by as many workgroups as there are

layout(push_constant, scalar) uniform Params {
    uint64_t q;  // f16 [rows][KV_HEADS * GROUP][HEAD_DIM]
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
const uint TILE = LANES / 4u;
const uint KEY_CHUNKS = CHUNKS / 4u;  // of a lane
const uint TEAMS = LANES / CHUNKS;
const uint TEAM_TILE = (TILE + TEAMS - 1u) / TEAMS;  // values of a lane
const uint AT_ONCE = LANES * GROUP <= 512u ? GROUP : LANES <= 256u ? 512u / LANES : 1u;  // heads, in `gathered`
const uint MIN_SUBGROUP = 8u;
const float NEVER = -3.0e38;
const uint COUNTER_BYTES = 65536u;

shared vec4 query[GROUP * QUADS];
shared float scores[2][GROUP][TILE];
shared float tops_of[2][GROUP][LANES / MIN_SUBGROUP];  // the largest score of each subgroup
shared float sums[GROUP][TEAMS];
shared vec4 gathered[AT_ONCE * TEAMS * QUADS];
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
uint split = gl_WorkGroupID.x;
uint kv_head = gl_WorkGroupID.y;
uint row_slot = gl_WorkGroupID.z;  // of what the splits leave for each other
uint row;
uint most_splits = SPLITS;
uint64_t ready = 0ul;  // of await_chain
uint team = lane / CHUNKS;
uint chunk = lane % CHUNKS;  // of a value

// The tile at hand, and what the lane has summed up: eight elements of each head over the positions of its team.
uvec4 keys[KEY_CHUNKS];
uvec4 values[TEAM_TILE];
float largest[GROUP];
float sum[GROUP];
vec4 low[GROUP];
vec4 high[GROUP];

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

uvec4 load_chunk(uint64_t base, Share share, uint position, uint i, bool made) {
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    // what lies past the ends may never have been written
    const uint at = clamp(position, share.first, share.end - 1u);
    const uint element = cache_element(shape, share.sequence, at, kv_head) + 8u * i;
    return made ? made_cache_chunk(shape, base + ready, element) : cache_chunk(shape, base, element);
}

// The last position is of this step, all others of earlier ones.
bool has_last(Share share, uint tile) { return tile + TILE > share.last; }

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
    for (uint i = lane; i < GROUP * CHUNKS; i += LANES) {
        const uvec4 halves = MadeUint4s(p.q + ready).at[(row * HEADS + kv_head * GROUP) * CHUNKS + i];
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
    ready = await_chain(p.chain);
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

// Columns count the query heads' elements in fours.
void put_result(uint column, vec4 y) {
    put_activations(FORMAT, p.y, p.rows, HEADS * HEAD_DIM, row, kv_head * GROUP * QUADS + column, y);
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
        for (uint i = lane; i < heads * QUADS; i += LANES) {
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
    for (uint i = lane; i < share.splits * GROUP; i += LANES) split_tops[i] = Tops(p.counters + COUNTER_BYTES).at[base * GROUP + i];
    barrier();
    for (uint column = lane; column < GROUP * QUADS; column += LANES) {
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
        row = gl_WorkGroupID.z;
        if (row < StepHeader(p.step).rows) attend_row();  // a bucket has more rows than the step
        count_in_chain(p.chain);
        return;
    }
    const uint rows = StepHeader(p.step).single_rows;
    for (uint i = gl_WorkGroupID.z; i < rows; i += gl_NumWorkGroups.z) {
        row = Uints(p.single_rows).at[i];
        attend_row();
        most_splits = 1u;  // the slot may still be in use; and so many rows fill the device by themselves
        barrier();         // before shared memory is written for the next
    }
}
