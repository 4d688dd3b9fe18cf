// What follows the products of q, k and v where attention does not do it by itself (kernels/heads.glsl). One workgroup per
// head and row.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common.glsl"
#include "step.glsl"
#include "chain.glsl"

layout(local_size_x_id = 1) in;
layout(constant_id = 1) const uint INVOCATIONS = 32;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint KV_HEADS = 1;
layout(constant_id = 4) const uint HEAD_DIM = 128;
layout(constant_id = 5) const uint BLOCK_TOKENS = 32;
layout(constant_id = 6) const uint QKV_SPLITS = 1;
layout(constant_id = 7) const uint PAIRS = 0;  // of a head that are turned
layout(constant_id = 8) const bool INTERLEAVED = false;
layout(constant_id = 9) const uint V_SPLITS = 0;  // of a product of v alone; 0: there is none
layout(constant_id = 10) const uint KV_SETS = 2;  // with q are 2: k and v; 1: k, which is v too if that is not apart; 0: none
layout(constant_id = 11) const bool NORMS_V = false;  // as q and k, without a weight
layout(constant_id = 12) const uint Q_GROWTH = 0;     // of op::ScaleByPosition, the bits of a float
layout(constant_id = 13) const uint Q_EVERY = 1;
const uint QUADS = HEAD_DIM / 4u;
const uint TOGETHER = 1u;
const uint ROUNDS = 1u;
#include "heads.glsl"

layout(push_constant, scalar) uniform Params {
    HeadsBlock heads;
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t blocks;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t q;  // f16 [rows][HEADS][HEAD_DIM]
    uint stride;
    uint rows;
    Chain chain;
} p;

uint head_of(uint number) { return gl_WorkGroupID.x; }
void put_query(uint row, uint number, uint quad, uvec2 halves) {
    MadeHalfQuads(p.q).at[(row * HEADS + gl_WorkGroupID.x) * QUADS + quad] = halves;
}

void run_head(uint row) {
    const HeadRow at = HeadRow(row, p.rows, uint(Ints(p.sequence_of_row).at[row]), uint(Ints(p.positions).at[row]),
                               CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM), p.cache_k, p.cache_v);
    const uint lane = gl_LocalInvocationID.x;
    const Prepared prepared = prepare_heads(p.heads, at, lane);
    const uint64_t ready = await_chain(p.chain);
    make_heads(p.heads, at, prepared, ready, lane, 1u);
}

void main() {
    const uint row = gl_WorkGroupID.y;
    if (row < StepHeader(p.step).rows) run_head(row);  // a bucket has more rows than the step
    count_in_chain(p.chain);
}
