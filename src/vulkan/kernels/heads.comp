// What follows the products of q, k and v: sums their splits, norms and turns each head of q and k, and puts q where
// attention reads it and k and v into the cache. One workgroup per head and row, four elements per lane.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "rope.glsl"
#include "step.glsl"
#include "chain.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 128;
layout(constant_id = 5) const uint BLOCK_TOKENS = 32;
layout(constant_id = 6) const uint SPLITS = 1;
layout(constant_id = 7) const uint PAIRS = 0;  // of a head that are turned
layout(constant_id = 8) const bool INTERLEAVED = false;
layout(constant_id = 9) const uint V_SPLITS = 0;  // of a product of v alone; 0: v is with q and k

layout(push_constant, scalar) uniform Params {
    uint64_t qkv;     // f32 [SPLITS][rows][HEADS + 2 * KV_HEADS][HEAD_DIM], without v KV_HEADS less
    uint64_t v;       // f32 [V_SPLITS][rows][KV_HEADS][HEAD_DIM]
    uint64_t q_norm;  // f32 [HEAD_DIM], or 0
    uint64_t k_norm;
    uint64_t turns;  // of each pair at position 1
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t blocks;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t q;  // f16 [rows][HEADS][HEAD_DIM]
    uint stride;
    uint rows;
    float eps;
    float magnitude;
    Chain chain;
} p;

layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer HalfQuads { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer UintsOut { uint at[]; };

const uint QUADS = HEAD_DIM / 4u;
const uint TURNED = INTERLEAVED ? 1u : PAIRS;  // from an element to the other of its pair

shared float squares[64];
shared float normed[HEAD_DIM];

// `ready`: of await_chain
vec4 load_head(uint64_t ready, uint row, uint head, uint quad) {
    vec4 x = vec4(0.0);
    if (V_SPLITS != 0u && head >= HEADS + KV_HEADS) {
        [[unroll]] for (uint s = 0u; s < V_SPLITS; ++s) {
            x += MadeFloat4s(p.v + ready).at[((s * p.rows + row) * KV_HEADS + head - HEADS - KV_HEADS) * QUADS + quad];
        }
        return x;
    }
    const uint heads = HEADS + (V_SPLITS == 0u ? 2u : 1u) * KV_HEADS;
    [[unroll]] for (uint s = 0u; s < SPLITS; ++s) {
        x += MadeFloat4s(p.qkv + ready).at[((s * p.rows + row) * heads + head) * QUADS + quad];
    }
    return x;
}

float sum_of_squares(vec4 x) {
    const float own = subgroupAdd(dot(x, x));
    if (gl_NumSubgroups == 1u) return own;
    if (subgroupElect()) squares[gl_SubgroupID] = own;
    barrier();
    float sum = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; ++i) sum += squares[i];
    return sum;
}

uint pair_of(uint element) { return INTERLEAVED ? element / 2u : element % max(PAIRS, 1u); }
bool is_first(uint element) { return INTERLEAVED ? element % 2u == 0u : element < PAIRS; }

void put(uint64_t base, uint element, vec4 x) {
    HalfQuads(base).at[element / 4u] = uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw)));
}

// Eight lanes that follow one another hold the 32 elements of a scale.
void put_q8(uint64_t base, CacheShape shape, uint element, vec4 x) {
    const vec4 magnitude = abs(x);
    float largest = max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w));
    [[unroll]] for (uint lanes = 1u; lanes < 8u; lanes *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, lanes));
    }
    const float scale = q8_scale_of(largest);
    UintsOut(base).at[q8_byte(shape, element) / 4u] = q8_pack(x, scale);
    if (element % 32u == 0u) HalvesOut(base).at[q8_scale(shape, element)] = float16_t(scale);
}

void run_head(uint row) {
    const uint head = gl_WorkGroupID.x;
    const uint quad = gl_LocalInvocationID.x;
    const bool inside = quad < QUADS;  // the lanes are rounded up to whole subgroups
    const bool is_value = head >= HEADS + KV_HEADS;
    const uint64_t norm = is_value ? 0ul : head < HEADS ? p.q_norm : p.k_norm;
    const int position = Ints(p.positions).at[row];

    const vec4 weight = inside && norm != 0ul ? Float4s(norm).at[quad] : vec4(0.0);
    vec2 turn[4];
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uint element = 4u * quad + i;
        if (!is_value && element < 2u * PAIRS) {
            turn[i] = p.magnitude * cos_sin(position, Turns(p.turns).at[pair_of(element)]);
        }
    }
    const uint64_t ready = await_chain(p.chain);

    vec4 x = inside ? load_head(ready, row, head, quad) : vec4(0.0);
    if (norm != 0ul) {
        x *= weight * inversesqrt(sum_of_squares(x) / float(HEAD_DIM) + p.eps);
    }
    if (PAIRS != 0u && !is_value) {
        if (inside) {
            [[unroll]] for (uint i = 0u; i < 4u; ++i) normed[4u * quad + i] = x[i];
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            const uint element = 4u * quad + i;
            if (element < 2u * PAIRS) {
                const bool first = is_first(element);
                const float other = normed[first ? element + TURNED : element - TURNED];
                x[i] = x[i] * turn[i].x + (first ? -other : other) * turn[i].y;
            }
        }
    }
    if (!inside) return;
    if (head < HEADS) {
        put(p.q, (row * HEADS + head) * HEAD_DIM + 4u * quad, x);
        return;
    }
    const CacheShape shape = CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM);
    const uint kv_head = (head - HEADS) % KV_HEADS;
    const uint element = cache_element(shape, uint(Ints(p.sequence_of_row).at[row]), uint(position), kv_head);
    const uint64_t to = is_value ? p.cache_v : p.cache_k;
    if (CACHE_TYPE == CACHE_Q8) {
        put_q8(to, shape, element + 4u * quad, x);
    } else {
        put(to, element + 4u * quad, x);
    }
}

void main() {
    const uint row = gl_WorkGroupID.y;
    if (row < StepHeader(p.step).rows) run_head(row);  // a bucket has more rows than the step
    count_in_chain(p.chain);
}
