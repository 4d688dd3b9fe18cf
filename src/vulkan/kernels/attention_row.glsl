// What the kernels of attention of single rows share (attention_decode.comp, attention_decode_matrix.comp): rows that each
// have a whole context to read. The visible positions of a row are split among workgroups, and the last of them to finish puts
// the parts together. One workgroup per split, kv head and row makes all query heads of the kv head, so that keys and values
// are read once. With MAKES it makes its queries from the products, and the workgroup that has the last position its key and
// value.
//
// A kernel includes this after its extensions, has attend() and gather(), and calls attend_rows().
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
layout(constant_id = 14) const uint KV_SETS = 2;
layout(constant_id = 15) const bool NORMS_V = false;
layout(constant_id = 16) const uint Q_GROWTH = 0;
layout(constant_id = 17) const uint Q_EVERY = 1;
layout(constant_id = 18) const bool SINKS = false;

layout(push_constant, scalar) uniform RowParams {
    uint64_t q;  // f16 [rows][KV_HEADS * GROUP][HEAD_DIM]; with MAKES: HeadsBlock
    uint64_t step;
    uint64_t positions;
    uint64_t sequence_of_row;
    uint64_t single_rows;
    uint64_t blocks;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t counters;  // u32 [slots][KV_HEADS], zero between dispatches; after COUNTER_BYTES
                        // vec2 [slots][KV_HEADS][SPLITS][GROUP]: largest score and sum of weights
    uint64_t parts;     // f32 [slots][KV_HEADS][SPLITS][GROUP][HEAD_DIM]: weighted sums of values, right after these; with
                        // SINKS, for which there is no other room, f32 [HEADS]
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
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer HeadsAt { HeadsBlock heads; };
const float NEVER = -3.0e38;
const uint COUNTER_BYTES = 65536u;

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

// The last position is of this step, all others of earlier ones. A tile is of so many positions.
bool has_last(Share share, uint tile, uint positions) { return tile + positions > share.last; }

uint head_of(uint number) {
    return number < GROUP ? kv_head * GROUP + number : HEADS + (number - GROUP) * KV_HEADS + kv_head;
}
void put_query(uint unused_row, uint number, uint quad, uvec2 halves) { made_query[number * QUADS + quad] = halves; }

// Eight elements of a head of the group.
uvec4 query_chunk(uint head, uint chunk) {
    if (MAKES) return uvec4(made_query[head * QUADS + 2u * chunk], made_query[head * QUADS + 2u * chunk + 1u]);
    return MadeUint4s(p.q + ready).at[(row * HEADS + kv_head * GROUP + head) * CHUNKS + chunk];
}

// Where `parts` are.
uint64_t parts_at() {
    const uint tops_bytes = gl_NumWorkGroups.y * HEADS * SPLITS * 8u;
    return SINKS ? p.counters + COUNTER_BYTES + uint64_t((tops_bytes + 15u) / 16u * 16u) : p.parts;
}

// What the sink of a head of the group adds to its sum of weights: it is one more score, without a value.
float sink_weight(uint head, float top) { return exp(Floats(p.parts).at[kv_head * GROUP + head] - top); }

// Waits, and makes what this workgroup has to. What a lane loads of it afterwards, another may have written.
void await_inputs(Share share) {
    if (!MAKES) {
        ready = await_chain(p.chain);
        return;
    }
    const HeadsBlock heads = HeadsAt(p.q).heads;
    const HeadRow at =
        HeadRow(row, p.rows, share.sequence, share.last,
                CacheShape(p.blocks, p.stride, BLOCK_TOKENS, KV_HEADS, HEAD_DIM), p.cache_k, p.cache_v);
    const Prepared prepared = prepare_heads(heads, at, lane);
    ready = await_chain(p.chain);
    make_heads(heads, at, prepared, ready, lane, GROUP + (KV_SETS != 0u && share.end > share.last ? 2u : 0u));
    memoryBarrierBuffer();
    barrier();
}

// Columns count the query heads' elements in fours.
void put_result(uint column, vec4 y) {
    put_activations(FORMAT, p.y, p.rows, HEADS * HEAD_DIM, row, kv_head * GROUP * QUADS + column, y);
}

// By the kernel: attends to the positions of a share, and adds up what its lanes have: the result itself, or this split's part
// of it.
void attend(Share share);
void gather(Share share);

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
                y += weight * Parts(parts_at()).at[(base + s) * GROUP * QUADS + column];
            }
        }
        if (SINKS) total += sink_weight(g, top);
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

void attend_rows() {
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
