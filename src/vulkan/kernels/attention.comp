// y = softmax(scale * q k^T) v for one row and one head per workgroup: tiles of TILE positions, one score per lane, with
// the softmax rescaled as the largest score grows.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "step.glsl"

const uint TILE = 128u;
const uint MAX_PER_LANE = 4u;  // head_dim / TILE, rounded up: heads of up to 512

layout(local_size_x = 128) in;
layout(push_constant, scalar) uniform Params {
    uint64_t q;
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t sinks;  // 0: none
    uint64_t y;
    CacheShape shape;
    uint heads;
    uint window;
    float scale;
    float softcap;
} p;

shared float query[TILE * MAX_PER_LANE];
shared float weight[TILE];
shared float reduce[TILE];

float largest_of(float value, uint lane) {
    reduce[lane] = value;
    barrier();
    for (uint half_size = TILE / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) reduce[lane] = max(reduce[lane], reduce[lane + half_size]);
        barrier();
    }
    const float result = reduce[0];
    barrier();
    return result;
}

float score(uint sequence, uint position, uint kv_head) {
    const uint element = cache_element(p.shape, sequence, position, kv_head);
    float sum = 0.0;
    for (uint i = 0u; i < p.shape.head_dim; ++i) sum += query[i] * cache_read(p.shape, p.cache_k, element + i);
    sum *= p.scale;
    return p.softcap == 0.0 ? sum : p.softcap * safe_tanh(sum / p.softcap);
}

void main() {
    const uint row = gl_WorkGroupID.y;
    if (row >= StepHeader(p.step).rows) return;
    const uint lane = gl_LocalInvocationID.x;
    const uint head = gl_WorkGroupID.x;
    const uint kv_head = head / (p.heads / p.shape.kv_heads);
    const uint head_dim = p.shape.head_dim;
    const uint sequence = uint(Ints(p.sequence_of_row).at[row]);
    const uint last = uint(Ints(p.positions).at[row]);
    const uint first = p.window == 0u ? 0u : max(last + 1u, p.window) - p.window;
    const uint at = (row * p.heads + head) * head_dim;

    for (uint i = lane; i < head_dim; i += TILE) query[i] = Floats(p.q).at[at + i];
    float y[MAX_PER_LANE];
    [[unroll]] for (uint i = 0u; i < MAX_PER_LANE; ++i) y[i] = 0.0;
    // A sink is one more score, without a value.
    float largest = p.sinks != 0u ? Floats(p.sinks).at[head] : -3.0e38;
    float sum = p.sinks != 0u ? 1.0 : 0.0;
    barrier();
    for (uint tile = first; tile <= last; tile += TILE) {
        const uint position = tile + lane;
        const float own = position <= last ? score(sequence, position, kv_head) : -3.0e38;
        const float grown = max(largest, largest_of(own, lane));
        const float shrink = exp(largest - grown);
        weight[lane] = position <= last ? exp(own - grown) : 0.0;
        barrier();
        sum *= shrink;
        [[unroll]] for (uint i = 0u; i < MAX_PER_LANE; ++i) y[i] *= shrink;
        const uint count = min(TILE, last + 1u - tile);
        for (uint t = 0u; t < count; ++t) {
            const float w = weight[t];
            sum += w;
            const uint element = cache_element(p.shape, sequence, tile + t, kv_head);
            [[unroll]] for (uint i = 0u; i < MAX_PER_LANE; ++i) {
                if (lane + i * TILE < head_dim) y[i] += w * cache_read(p.shape, p.cache_v, element + lane + i * TILE);
            }
        }
        largest = grown;
        barrier();
    }
    [[unroll]] for (uint i = 0u; i < MAX_PER_LANE; ++i) {
        if (lane + i * TILE < head_dim) FloatsOut(p.y).at[at + lane + i * TILE] = y[i] / sum;
    }
}
