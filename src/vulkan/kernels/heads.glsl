// Heads of q, k and v, from the splits of their products to what attention takes: sums, norms and turns them, hands q out as
// f16 and puts k and v into the cache. A team of QUADS lanes makes a head, four elements each; TOGETHER teams are at
// work at once, in ROUNDS. To come after step.glsl and the constants that it names.
#include "rope.glsl"

struct HeadsBlock {
    uint64_t qkv;     // f32 [QKV_SPLITS][rows][HEADS + KV_SETS * KV_HEADS][HEAD_DIM]
    uint64_t v;       // f32 [V_SPLITS][rows][KV_HEADS][HEAD_DIM]
    uint64_t q_norm;  // f32 [HEAD_DIM], or 0
    uint64_t k_norm;
    uint64_t turns;  // of each pair at position 1
    float eps;
    float magnitude;
};

// Coherent: what one lane puts into the cache another may load.
layout(buffer_reference, scalar, buffer_reference_align = 8) coherent writeonly buffer MadeHalfQuads { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent writeonly buffer MadeUints { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 2) coherent writeonly buffer MadeHalves { float16_t at[]; };

const uint TURNED = INTERLEAVED ? 1u : PAIRS;  // from an element to the other of its pair

shared float squares[ROUNDS * INVOCATIONS];
shared float normed[ROUNDS * TOGETHER * HEAD_DIM];

// By the kernel: the head of each number below the count, those of q first, then of k, then of v; and where q goes.
uint head_of(uint number);
void put_query(uint row, uint number, uint quad, uvec2 halves);

// The row, and where its position lies in the cache.
struct HeadRow {
    uint row, rows;
    uint sequence, position;
    CacheShape shape;
    uint64_t cache_k, cache_v;
};

vec4 load_head(HeadsBlock h, HeadRow at, uint64_t ready, uint head, uint quad) {
    vec4 x = vec4(0.0);
    if (V_SPLITS != 0u && head >= HEADS + KV_HEADS) {
        const uint first = (at.row * KV_HEADS + head - HEADS - KV_HEADS) * QUADS + quad;
        [[unroll]] for (uint s = 0u; s < V_SPLITS; ++s) {
            x += MadeFloat4s(h.v + ready).at[s * at.rows * KV_HEADS * QUADS + first];
        }
        return x;
    }
    const uint heads = HEADS + KV_SETS * KV_HEADS;
    if (head >= heads) head -= KV_HEADS;
    [[unroll]] for (uint s = 0u; s < QKV_SPLITS; ++s) {
        x += MadeFloat4s(h.qkv + ready).at[((s * at.rows + at.row) * heads + head) * QUADS + quad];
    }
    return x;
}

uint pair_of(uint element) { return INTERLEAVED ? element / 2u : element % max(PAIRS, 1u); }
bool is_first(uint element) { return INTERLEAVED ? element % 2u == 0u : element < PAIRS; }

uvec2 in_halves(vec4 x) { return uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw))); }

// Eight lanes that follow one another hold the 32 elements of a scale.
void put_q8(uint64_t base, CacheShape shape, uint element, vec4 x) {
    float largest = largest_of(x);
    [[unroll]] for (uint lanes = 1u; lanes < 8u; lanes *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, lanes));
    }
    const float scale = q8_scale_of(largest);
    MadeUints(base).at[q8_byte(shape, element) / 4u] = q8_pack(x, scale);
    if (element % 32u == 0u) MadeHalves(base).at[q8_scale(shape, element)] = float16_t(scale);
}

// What a lane knows before the products are there.
struct Prepared {
    vec4 q_norm, k_norm;
    vec2 turn[4];
};
Prepared prepare_heads(HeadsBlock h, HeadRow at, uint lane) {
    const uint quad = lane % QUADS;
    Prepared prepared;
    if (h.q_norm != 0ul) {
        prepared.q_norm = Float4s(h.q_norm).at[quad];
        prepared.k_norm = Float4s(h.k_norm).at[quad];
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uint element = 4u * quad + i;
        if (element < 2u * PAIRS) {
            prepared.turn[i] = h.magnitude * cos_sin(int(at.position), Turns(h.turns).at[pair_of(element)]);
        }
    }
    return prepared;
}

void put_head(HeadRow at, uint number, uint quad, vec4 x) {
    const uint head = head_of(number);
    if (head < HEADS) {
        put_query(at.row, number, quad, in_halves(x));
        return;
    }
    const uint element = cache_element(at.shape, at.sequence, at.position, (head - HEADS) % KV_HEADS) + 4u * quad;
    const uint64_t to = head < HEADS + KV_HEADS ? at.cache_k : at.cache_v;
    if (CACHE_TYPE == CACHE_Q8) {
        put_q8(to, at.shape, element, x);
    } else {
        MadeHalfQuads(to).at[element / 4u] = in_halves(x);
    }
}

// Heads 0 to count - 1, by all lanes. `ready`: of await_chain.
void make_heads(HeadsBlock h, HeadRow at, Prepared prepared, uint64_t ready, uint lane, uint count) {
    const uint team = lane / QUADS, quad = lane % QUADS;
    vec4 x[ROUNDS];
    [[unroll]] for (uint r = 0u; r < ROUNDS; ++r) {
        const uint number = r * TOGETHER + team;
        const bool inside = team < TOGETHER && number < count;
        x[r] = inside ? load_head(h, at, ready, head_of(number), quad) : vec4(0.0);
    }
    if (h.q_norm != 0ul) {
        [[unroll]] for (uint r = 0u; r < ROUNDS; ++r) squares[r * INVOCATIONS + lane] = dot(x[r], x[r]);
        barrier();
        [[unroll]] for (uint r = 0u; r < ROUNDS; ++r) {
            const uint head = head_of(min(r * TOGETHER + team, count - 1u));
            const uint first = min(r * INVOCATIONS + team * QUADS, ROUNDS * INVOCATIONS - QUADS);
            float sum = 0.0;
            for (uint i = 0u; i < QUADS; ++i) sum += squares[first + i];
            const float scale = inversesqrt(sum / float(HEAD_DIM) + h.eps);
            if (head < HEADS + KV_HEADS) {
                x[r] *= (head < HEADS ? prepared.q_norm : prepared.k_norm) * scale;
            } else if (NORMS_V) {
                x[r] *= scale;
            }
        }
    }
    if (PAIRS != 0u) {
        [[unroll]] for (uint r = 0u; r < ROUNDS; ++r) {
            if (team < TOGETHER) {
                [[unroll]] for (uint i = 0u; i < 4u; ++i) normed[(r * TOGETHER + team) * HEAD_DIM + 4u * quad + i] = x[r][i];
            }
        }
        barrier();
    }
    [[unroll]] for (uint r = 0u; r < ROUNDS; ++r) {
        const uint number = r * TOGETHER + team;
        if (team < TOGETHER && number < count) {
            if (PAIRS != 0u && head_of(number) < HEADS + KV_HEADS) {
                [[unroll]] for (uint i = 0u; i < 4u; ++i) {
                    const uint element = 4u * quad + i;
                    if (element < 2u * PAIRS) {
                        const bool first = is_first(element);
                        const float other = normed[number * HEAD_DIM + (first ? element + TURNED : element - TURNED)];
                        x[r][i] = x[r][i] * prepared.turn[i].x + (first ? -other : other) * prepared.turn[i].y;
                    }
                }
            }
            if (Q_GROWTH != 0u && head_of(number) < HEADS) {
                x[r] *= 1.0 + uintBitsToFloat(Q_GROWTH) * log(1.0 + float(at.position / Q_EVERY));
            }
            put_head(at, number, quad, x[r]);
        }
    }
}
