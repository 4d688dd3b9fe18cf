// What changes from step to step (see vulkan/step_state.h): its rows, the tiles of attention, and the block tables.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer StepHeader {
    uint rows;
    uint outputs;
    uint tiles;
    uint single_rows;  // that are in no tile
};

// Rows of one sequence that attend together.
struct RowTile {
    uint sequence;
    uint first_row;
    uint rows;
    uint position;  // of the first row
};
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer RowTiles { RowTile at[]; };

// Where the keys or values of a position lie: [block][kv_head][slot][head_dim].
struct CacheShape {
    uint64_t blocks;  // the group's block tables, `stride` entries for each sequence
    uint stride;
    uint block_tokens;
    uint kv_heads;
    uint head_dim;
};

uint cache_element(CacheShape shape, uint sequence, uint position, uint kv_head) {
    const uint block = Uints(shape.blocks).at[sequence * shape.stride + position / shape.block_tokens];
    return ((block * shape.kv_heads + kv_head) * shape.block_tokens + position % shape.block_tokens) * shape.head_dim;
}

const uint CACHE_F32 = 0u;
const uint CACHE_F16 = 1u;
const uint CACHE_Q8 = 2u;  // int8; the elements of a head in a block are followed by their f16 scales, one for 32
layout(constant_id = 0) const uint CACHE_TYPE = CACHE_F16;

// In a cache of int8: the byte of an element, and which f16 its scale is.
uint q8_byte(CacheShape shape, uint element) {
    const uint elements = shape.block_tokens * shape.head_dim;
    return element + element / elements * (elements / 16u);
}
uint q8_scale(CacheShape shape, uint element) {
    const uint elements = shape.block_tokens * shape.head_dim;
    return (element / elements * 17u + 16u) * (elements / 32u) + element % elements / 32u;
}

// The scale, as f16 holds it, of 32 elements; and four of them divided by it. As format/quant_encode.cpp does it.
float q8_scale_of(float largest) { return unpackHalf2x16(packHalf2x16(vec2(largest / 127.0, 0.0))).x; }
uint q8_pack(vec4 x, float scale) {
    const ivec4 q = scale > 0.0 ? ivec4(clamp(roundEven(x * (1.0 / scale)), -127.0, 127.0)) : ivec4(0);
    return uint(q.x & 255) | uint(q.y & 255) << 8 | uint(q.z & 255) << 16 | uint(q.w) << 24;
}
vec4 q8_unpack(uint word) {
    const int q = int(word);
    return vec4(bitfieldExtract(q, 0, 8), bitfieldExtract(q, 8, 8), bitfieldExtract(q, 16, 8), bitfieldExtract(q, 24, 8));
}

float cache_read(CacheShape shape, uint64_t base, uint element) {
    if (CACHE_TYPE == CACHE_F32) return Floats(base).at[element];
    if (CACHE_TYPE == CACHE_F16) return float(Halves(base).at[element]);
    const uint byte = q8_byte(shape, element);
    const int q = bitfieldExtract(int(Uints(base).at[byte / 4u]), int(byte % 4u * 8u), 8);
    return float(q) * float(Halves(base).at[q8_scale(shape, element)]);
}

// Eight elements from `element` on, as they lie in a cache of f16; of int8 two words of elements, and the scale.
uvec4 cache_chunk(CacheShape shape, uint64_t base, uint element) {
    if (CACHE_TYPE == CACHE_F16) return Uint4s(base).at[element / 8u];
    return uvec4(Uint2s(base).at[q8_byte(shape, element) / 8u], uint(Shorts(base).at[q8_scale(shape, element)]), 0u);
}
// The same of what this step has written.
uvec4 made_cache_chunk(CacheShape shape, uint64_t base, uint element) {
    if (CACHE_TYPE == CACHE_F16) return MadeUint4s(base).at[element / 8u];
    return uvec4(MadeUint2s(base).at[q8_byte(shape, element) / 8u], uint(MadeShorts(base).at[q8_scale(shape, element)]),
                 0u);
}
vec4 chunk_low(uvec4 chunk) {
    return CACHE_TYPE == CACHE_F16 ? vec4(unpackHalf2x16(chunk.x), unpackHalf2x16(chunk.y))
                                   : unpackHalf2x16(chunk.z).x * q8_unpack(chunk.x);
}
vec4 chunk_high(uvec4 chunk) {
    return CACHE_TYPE == CACHE_F16 ? vec4(unpackHalf2x16(chunk.z), unpackHalf2x16(chunk.w))
                                   : unpackHalf2x16(chunk.z).x * q8_unpack(chunk.y);
}
// All eight as f16.
uvec4 chunk_halves(uvec4 chunk) {
    if (CACHE_TYPE == CACHE_F16) return chunk;
    const vec4 low = chunk_low(chunk), high = chunk_high(chunk);
    return uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
}
