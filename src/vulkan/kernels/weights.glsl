// Weights as they lie on the device (see vulkan/planes.h): blocks of 32 elements, decoded to value = scale * q + offset.
// WEIGHT selects the type; its values are those of the enum DType. To come after the constant TILED.
#define F32 0
#define F16 1
#define BF16 2
#define Q8_0 4
#define Q4_0 5
#define Q4_1 6
#define Q5_0 7
#define Q5_1 8
#define Q4_K 9
#define Q5_K 10
#define Q6_K 11

struct Weight {
    uint64_t quants;  // the bytes of plain types; else 16 bytes a block, 32 for Q8_0
    uint64_t scales;  // f16, two f16, two int8, or 16 bytes for each 256 elements
    uint64_t high;    // bits above the fourth
    uint64_t deltas;  // Q6_K: f16 for each 256 elements
};

// 32 elements: the bytes of q, signed; scale and offset apply to 16 elements each.
struct Block {
    uvec4 q[2];
    vec2 scale;
    vec2 offset;
};

// Of every byte of `high` the bits from `bit` on, moved to bit 4 and beyond.
uint to_bit_4(uint high, uint bit) { return bit <= 4u ? high << (4u - bit) : high >> (bit - 4u); }

uint byte_of(uvec4 bytes, uint i) { return (bytes[i >> 2] >> (8u * (i & 3u))) & 255u; }

// The 6-bit scale and minimum of sub-block `s` of a K block: 4 bytes of d and dmin, then 12 of packed scales.
uvec2 k_scale(uvec4 header, uint s) {
    if (s < 4u) return uvec2(byte_of(header, 4u + s) & 63u, byte_of(header, 8u + s) & 63u);
    const uint low = byte_of(header, 8u + s), d = byte_of(header, s), m = byte_of(header, 4u + s);
    return uvec2((low & 15u) | ((d >> 6) << 4), (low >> 4) | ((m >> 6) << 4));
}

// The place of block `block` of a row of `blocks`. Plain types are never in tiles.
uint place_of(uint row, uint block, uint blocks) {
    if (!TILED) return row * blocks + block;
    return ((row / 16u * (blocks / 4u) + block / 4u) * 2u + row / 8u % 2u) * 32u + row % 8u * 4u + block % 4u;
}

// The planes from `place` on, but for those that belong to 8 blocks. Not for plain types.
Weight weight_from(Weight w, uint place) {
#if WEIGHT == Q8_0
    w.quants += uint64_t(place) * 32u;
#else
    w.quants += uint64_t(place) * 16u;
#endif
#if WEIGHT == Q4_1 || WEIGHT == Q5_1
    w.scales += uint64_t(place) * 4u;
#elif WEIGHT != Q4_K && WEIGHT != Q5_K
    w.scales += uint64_t(place) * 2u;
#endif
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    w.high += uint64_t(place) * 4u;
#elif WEIGHT == Q6_K
    w.high += uint64_t(place) * 8u;
#endif
    return w;
}

#if WEIGHT != F32 && WEIGHT != F16 && WEIGHT != BF16
// A block as it lies in memory. Loading and decoding are apart, so that a kernel can have many loads under way.
struct RawBlock {
#if WEIGHT == Q8_0
    uvec4 quants[2];
#else
    uvec4 quants[1];
#endif
#if WEIGHT == Q4_K || WEIGHT == Q5_K
    uvec4 scales;
#else
    uint scales;
#endif
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    uint high;
#elif WEIGHT == Q6_K
    uvec2 high;
    float16_t delta;
#endif
};

// The block at `place`, which is the number `block` of the matrix, row after row. Not for plain types.
RawBlock load_raw(Weight w, uint place, uint block) {
    RawBlock raw;
#if WEIGHT == Q8_0
    raw.quants[0] = Uint4s(w.quants).at[2u * place];
    raw.quants[1] = Uint4s(w.quants).at[2u * place + 1u];
#else
    raw.quants[0] = Uint4s(w.quants).at[place];
#endif
#if WEIGHT == Q4_K || WEIGHT == Q5_K
    raw.scales = Uint4s(w.scales).at[block / 8u];
#elif WEIGHT == Q4_1 || WEIGHT == Q5_1
    raw.scales = Uints(w.scales).at[place];
#else
    raw.scales = uint(Shorts(w.scales).at[place]);
#endif
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    raw.high = Uints(w.high).at[place];
#elif WEIGHT == Q6_K
    raw.high = Uint2s(w.high).at[place];
    raw.delta = Halves(w.deltas).at[block / 8u];
#endif
    return raw;
}

// `block` again says which of the scales of a K block are meant.
Block decode_block(RawBlock raw, uint block) {
    Block b;
#if WEIGHT == Q8_0
    b.q[0] = raw.quants[0];
    b.q[1] = raw.quants[1];
    b.scale = vec2(unpackHalf2x16(raw.scales).x);
    b.offset = vec2(0.0);
#else
    b.q[0] = raw.quants[0] & 0x0f0f0f0fu;
    b.q[1] = (raw.quants[0] >> 4) & 0x0f0f0f0fu;
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        b.q[0][i] |= to_bit_4(raw.high, i) & 0x10101010u;
        b.q[1][i] |= to_bit_4(raw.high, 4u + i) & 0x10101010u;
    }
#endif
#if WEIGHT == Q4_0 || WEIGHT == Q5_0
    b.scale = vec2(unpackHalf2x16(raw.scales).x);
    b.offset = b.scale * (WEIGHT == Q4_0 ? -8.0 : -16.0);
#elif WEIGHT == Q4_1 || WEIGHT == Q5_1
    b.scale = vec2(unpackHalf2x16(raw.scales).x);
    b.offset = vec2(unpackHalf2x16(raw.scales).y);
#elif WEIGHT == Q4_K || WEIGHT == Q5_K
    const vec2 scaled = unpackHalf2x16(raw.scales.x) * vec2(k_scale(raw.scales, block % 8u));
    b.scale = vec2(scaled.x);
    b.offset = vec2(-scaled.y);
#elif WEIGHT == Q6_K
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        b.q[0][i] |= to_bit_4(raw.high.x, 2u * i) & 0x30303030u;
        b.q[1][i] |= to_bit_4(raw.high.y, 2u * i) & 0x30303030u;
    }
    b.scale = float(raw.delta) * vec2(ivec2(int(raw.scales << 24), int(raw.scales << 16)) >> 24);
    b.offset = -32.0 * b.scale;
#endif
#endif
    return b;
}

Block load_block(Weight w, uint row, uint block, uint blocks) {
    return decode_block(load_raw(w, place_of(row, block, blocks), row * blocks + block), block);
}

// Four elements, beginning at 4 * `i`, of a block.
vec4 block_values(Block b, uint i) {
    const uint bytes = b.q[i >> 2][i & 3u];
    return b.scale[i >> 2] * vec4(unpack8(int(bytes))) + b.offset[i >> 2];
}
#endif

// Four elements of a plain matrix, beginning at element 4 * `i` of the whole.
vec4 plain_values(Weight w, uint i) {
#if WEIGHT == F32
    return Float4s(w.quants).at[i];
#elif WEIGHT == F16
    const uvec2 bits = Uint2s(w.quants).at[i];
    return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
#else
    const uvec2 bits = Uint2s(w.quants).at[i];
    return uintBitsToFloat(uvec4(bits.x << 16, bits.x & 0xffff0000u, bits.y << 16, bits.y & 0xffff0000u));
#endif
}

// One element of a plain matrix, for rows that are no multiple of four.
float plain_value(Weight w, uint i) {
#if WEIGHT == F32
    return Floats(w.quants).at[i];
#elif WEIGHT == F16
    return float(Halves(w.quants).at[i]);
#else
    return uintBitsToFloat(uint(Shorts(w.quants).at[i]) << 16);
#endif
}

#define PLAIN (WEIGHT == F32 || WEIGHT == F16 || WEIGHT == BF16)
