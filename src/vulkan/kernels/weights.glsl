// Weights as they lie on the device (see vulkan/weights.h): blocks of 32 elements, decoded to value = scale * q + offset.
// WEIGHT selects the type; its values are those of the enum DType.
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
    uint64_t scales;  // f16, two f16, or 16 bytes for each 256 elements
    uint64_t high;    // bits above the fourth
    uint64_t deltas;  // Q6_K: f16 for each 256 elements
};

// 32 elements: the bytes of q, signed; scale and offset apply to 16 elements each.
struct Block {
    uvec4 q[2];
    vec2 scale;
    vec2 offset;
};

// Four bits of `high`, one into bit 4 of each byte.
uint spread_bits(uint high) {
    return ((high & 1u) | ((high & 2u) << 7) | ((high & 4u) << 14) | ((high & 8u) << 21)) << 4;
}

// Four pairs of bits of `high`, one into bits 4 and 5 of each byte.
uint spread_pairs(uint high) {
    return ((high & 3u) | ((high & 12u) << 6) | ((high & 48u) << 12) | ((high & 192u) << 18)) << 4;
}

uint byte_of(uvec4 bytes, uint i) { return (bytes[i >> 2] >> (8u * (i & 3u))) & 255u; }

// The 6-bit scale and minimum of sub-block `s` of a K block: 4 bytes of d and dmin, then 12 of packed scales.
uvec2 k_scale(uvec4 header, uint s) {
    if (s < 4u) return uvec2(byte_of(header, 4u + s) & 63u, byte_of(header, 8u + s) & 63u);
    const uint low = byte_of(header, 8u + s), d = byte_of(header, s), m = byte_of(header, 4u + s);
    return uvec2((low & 15u) | ((d >> 6) << 4), (low >> 4) | ((m >> 6) << 4));
}

#if WEIGHT != F32 && WEIGHT != F16 && WEIGHT != BF16
// A block as it lies in memory. Loading and decoding are apart, so that a kernel can have many loads under way.
struct RawBlock {
#if WEIGHT == Q8_0
    uvec4 quants[2];
#else
    uvec4 quants[1];
#endif
#if WEIGHT == Q4_K || WEIGHT == Q5_K || WEIGHT == Q6_K
    uvec4 scales;
#else
    uint scales;  // one f16 or two
#endif
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    uint high;
#elif WEIGHT == Q6_K
    uvec2 high;
    float16_t delta;
#endif
};

// `block` counts the blocks of 32 elements over the whole matrix. Not for plain types.
RawBlock load_raw(Weight w, uint block) {
    RawBlock raw;
#if WEIGHT == Q8_0
    raw.quants[0] = Uint4s(w.quants).at[2u * block];
    raw.quants[1] = Uint4s(w.quants).at[2u * block + 1u];
#else
    raw.quants[0] = Uint4s(w.quants).at[block];
#endif
#if WEIGHT == Q4_K || WEIGHT == Q5_K || WEIGHT == Q6_K
    raw.scales = Uint4s(w.scales).at[block / 8u];
#elif WEIGHT == Q4_1 || WEIGHT == Q5_1
    raw.scales = Uints(w.scales).at[block];
#else
    raw.scales = uint(Shorts(w.scales).at[block]);
#endif
#if WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == Q5_K
    raw.high = Uints(w.high).at[block];
#elif WEIGHT == Q6_K
    raw.high = Uint2s(w.high).at[block];
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
        b.q[0][i] |= spread_bits(raw.high >> (4u * i));
        b.q[1][i] |= spread_bits(raw.high >> (16u + 4u * i));
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
        b.q[0][i] |= spread_pairs(raw.high.x >> (8u * i));
        b.q[1][i] |= spread_pairs(raw.high.y >> (8u * i));
    }
    const uint at = 2u * (block % 8u);
    const ivec2 s = ivec2(int(byte_of(raw.scales, at) << 24) >> 24, int(byte_of(raw.scales, at + 1u) << 24) >> 24);
    b.scale = float(raw.delta) * vec2(s);
    b.offset = -32.0 * b.scale;
#endif
#endif
    return b;
}

Block load_block(Weight w, uint block) { return decode_block(load_raw(w, block), block); }

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
