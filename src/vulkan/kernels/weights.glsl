// Weights as they lie on the device (see vulkan/planes.h): blocks of 32 elements, decoded to value = scale * q + offset.
// The build gives WEIGHT, the type, and makes dtypes.glsl of its row of base/dtypes.inc: the bytes QUANTS, SCALES and HIGH of
// a block and DELTAS of eight. To come after the constant TILED.
#include "dtypes.glsl"

#define PLAIN (WEIGHT == F32 || WEIGHT == F16 || WEIGHT == BF16)
// What kinds of blocks there are beside bytes: points of code books; two bits, of which a word has all of a half; nibbles, of
// which a word has four of each half, and which may stand for the numbers of a table.
#define IQ2 (WEIGHT == IQ2_S || WEIGHT == IQ2_XS || WEIGHT == IQ2_XXS)
#define IQ3 (WEIGHT == IQ3_S || WEIGHT == IQ3_XXS)
#define IQ1 (WEIGHT == IQ1_S || WEIGHT == IQ1_M)
#define BOOK (IQ1 || IQ2 || IQ3)
#define TERNARY (WEIGHT == TQ1_0 || WEIGHT == TQ2_0)
// q1_0 lies as q2_0 does.
#define LOW_BITS (WEIGHT == Q1_0 || WEIGHT == Q2_0)
#define TWO_BITS (WEIGHT == Q2_K || WEIGHT == Q3_K || TERNARY || LOW_BITS)
#define NIBBLES (!PLAIN && QUANTS == 16)
#define TABLE (WEIGHT == IQ4_NL || WEIGHT == IQ4_XS || WEIGHT == MXFP4 || WEIGHT == NVFP4)
// Scales of 16 elements each, not of 32.
#define TWO_SCALES                                                                                                      \
    (WEIGHT == Q6_K || WEIGHT == Q3_K || WEIGHT == Q2_K || WEIGHT == NVFP4 || WEIGHT == IQ2_S || WEIGHT == IQ2_XS ||    \
     WEIGHT == IQ1_M)
// What has no offset of its own but a q that stands for zero.
#define ZERO                                                                                                            \
    (WEIGHT == Q4_0 ? 8 : WEIGHT == Q5_0 ? 16 : WEIGHT == Q6_K ? 32 : WEIGHT == Q3_K ? 4 : TERNARY || LOW_BITS ? 1 :    \
     IQ1 ? 9 : 0)
// Scales that are f16 by themselves.
#define F16_SCALES                                                                                                      \
    (WEIGHT == Q8_0 || WEIGHT == Q4_0 || WEIGHT == Q4_1 || WEIGHT == Q5_0 || WEIGHT == Q5_1 || WEIGHT == IQ4_NL ||       \
     LOW_BITS)
#define OFFSETS (WEIGHT == Q4_1 || WEIGHT == Q5_1 || WEIGHT == Q4_K || WEIGHT == Q5_K || WEIGHT == Q2_K)

struct Weight {
    uint64_t quants;  // the bytes of plain types
    uint64_t scales;
    uint64_t high;    // bits above those of quants
    uint64_t deltas;  // of scales, for each 256 elements: f16, or two of them
    uint64_t book;    // code_book()
};

// 32 elements: the bytes of q, signed; scale and offset apply to 16 elements each.
struct Block {
    uvec4 q[2];
    vec2 scale;
    vec2 offset;
};

// Of every byte of `high` the bits from `from` on, moved to bit `to` and beyond.
uint moved(uint high, uint from, uint to) { return from <= to ? high << (to - from) : high >> (from - to); }

// The place of block `block` of a row of `blocks`.
uint place_of(uint row, uint block, uint blocks) {
    if (!TILED) return row * blocks + block;
    return ((row / 16u * (blocks / 4u) + block / 4u) * 2u + row / 8u % 2u) * 32u + row % 8u * 4u + block % 4u;
}

// Of the quants of the block at `place`, 16 bytes: in tiles the first ones of 32 blocks lie together, then the second ones.
uint chunk_at(uint place, uint chunk) {
    const uint chunks = QUANTS / 16;
    return TILED ? (place / 32u * chunks + chunk) * 32u + place % 32u : place * chunks + chunk;
}

// The planes from `place` on, of a whole tile, but for those that belong to 8 blocks.
Weight weight_from(Weight w, uint place) {
    w.quants += uint64_t(place) * QUANTS;
    w.scales += uint64_t(place) * SCALES;
    w.high += uint64_t(place) * HIGH;
    return w;
}

#if !PLAIN
// A block as it lies in memory. Loading and decoding are apart, so that a kernel can have many loads under way.
struct RawBlock {
#if QUANTS == 32
    uvec4 quants[2];
#elif QUANTS == 16
    uvec4 quants[1];
#elif QUANTS == 8
    uvec2 quants;
#else
    uint quants;
#endif
#if SCALES != 0
    uint scales;
#endif
#if HIGH == 8
    uvec2 high;
#elif HIGH != 0
    uint high;
#endif
#if DELTAS != 0
    uint deltas;
#endif
};

// The block at `place`, which is the number `block` of the matrix, row after row.
RawBlock load_raw(Weight w, uint place, uint block) {
    RawBlock raw;
#if QUANTS == 32
    [[unroll]] for (uint i = 0u; i < 2u; ++i) raw.quants[i] = Uint4s(w.quants).at[chunk_at(place, i)];
#elif QUANTS == 16
    raw.quants[0] = Uint4s(w.quants).at[place];
#elif QUANTS == 8
    raw.quants = Uint2s(w.quants).at[place];
#else
    raw.quants = Uints(w.quants).at[place];
#endif
#if SCALES == 4
    raw.scales = Uints(w.scales).at[place];
#elif SCALES == 2
    raw.scales = uint(Shorts(w.scales).at[place]);
#elif SCALES == 1
    raw.scales = uint(Bytes(w.scales).at[place]);
#endif
#if HIGH == 8
    raw.high = Uint2s(w.high).at[place];
#elif HIGH == 4
    raw.high = Uints(w.high).at[place];
#elif HIGH == 2
    raw.high = uint(Shorts(w.high).at[place]);
#endif
#if DELTAS == 4
    raw.deltas = Uints(w.deltas).at[block / 8u];
#elif DELTAS == 2
    raw.deltas = uint(Shorts(w.deltas).at[block / 8u]);
#endif
    return raw;
}

vec2 signed_bytes(uint two) { return vec2(ivec2(int(two << 24), int(two << 16)) >> 24); }

// Scales of the halves of a block, and what is added, but for a ZERO.
void decode_scales(RawBlock raw, out vec2 scale, out vec2 offset) {
    offset = vec2(0.0);
#if WEIGHT == Q4_1 || WEIGHT == Q5_1
    const vec2 both = unpackHalf2x16(raw.scales);
    scale = vec2(both.x);
    offset = vec2(both.y);
#elif WEIGHT == Q4_K || WEIGHT == Q5_K
    const vec2 both = unpackHalf2x16(raw.deltas) * vec2(raw.scales & 255u, raw.scales >> 8);
    scale = vec2(both.x);
    offset = vec2(-both.y);
#elif WEIGHT == Q2_K
    const vec2 both = unpackHalf2x16(raw.deltas);
    scale = both.x * vec2(raw.scales & 15u, raw.scales >> 8 & 15u);
    offset = -both.y * vec2(raw.scales >> 4 & 15u, raw.scales >> 12);
#elif WEIGHT == Q6_K || WEIGHT == Q3_K
    scale = unpackHalf2x16(raw.deltas).x * signed_bytes(raw.scales);
#elif WEIGHT == IQ4_XS
    scale = vec2(unpackHalf2x16(raw.deltas).x * signed_bytes(raw.scales).x);
#elif WEIGHT == MXFP4
    // 2^(e - 128), as the table has its numbers twice as large; the smallest two are subnormal
    scale = vec2(uintBitsToFloat(raw.scales < 2u ? 0x00200000u << raw.scales : (raw.scales - 1u) << 23));
#elif WEIGHT == NVFP4
    // e4m3 without a sign: where f16 has its exponent and mantissa, 2^8 too small, and half of it for the table
    const uvec2 e4m3 = uvec2(raw.scales & 127u, raw.scales >> 8 & 127u);
    scale = mix(128.0 * unpackHalf2x16(e4m3.x << 7 | e4m3.y << 23), vec2(0.0), equal(e4m3, uvec2(127u)));
#elif TERNARY
    scale = vec2(unpackHalf2x16(raw.deltas).x);
#elif BOOK
    // an odd number of parts of d: of quarters, eighths, or of the eighths that points of iq1 count
#if WEIGHT == IQ3_S
    const uvec2 odd = uvec2(raw.scales >> 8);
#elif WEIGHT == IQ3_XXS
    const uvec2 odd = uvec2(raw.high >> 28);
#elif WEIGHT == IQ2_S
    const uvec2 odd = uvec2(raw.scales >> 8 & 15u, raw.scales >> 12);
#elif WEIGHT == IQ2_XXS
    const uvec2 odd = uvec2(raw.quants.y >> 28);
#elif WEIGHT == IQ1_S
    const uvec2 odd = uvec2(raw.high >> 12 & 7u);
#else
    const uvec2 odd = uvec2(raw.scales & 15u, raw.scales >> 4);
#endif
    const float part = WEIGHT == IQ3_S ? 1.0 : WEIGHT == IQ3_XXS ? 0.25 : 0.125;
    scale = unpackHalf2x16(raw.deltas).x * part * vec2(2u * odd + 1u);
#else
    scale = vec2(unpackHalf2x16(raw.scales).x);
#endif
}

#if TABLE
// What a nibble stands for, as int8: four to a word.
#if WEIGHT == MXFP4 || WEIGHT == NVFP4
const uint TABLE_WORDS[4] = uint[](0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
#else
const uint TABLE_WORDS[4] = uint[](0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
#endif
int in_table(uint nibble) { return int(TABLE_WORDS[nibble >> 2] << (24u - 8u * (nibble & 3u))) >> 24; }

// The numbers of a byte's nibbles, the low one's in the low half, as the kernel wants them.
shared uint number_table[256];
#ifdef DECODES_TO_F16
uint table_entry(int low, int high) { return packHalf2x16(vec2(low, high)); }
#else
uint table_entry(int low, int high) { return (uint(low) & 255u) | (uint(high) & 255u) << 16; }
#endif

// By every lane of the workgroup, of `lanes`, before it decodes anything.
void prepare_weights(Weight w, uint lanes) {
    for (uint i = gl_LocalInvocationIndex; i < 256u; i += lanes) {
        number_table[i] = table_entry(in_table(i & 15u), in_table(i >> 4));
    }
    barrier();
}
#elif BOOK
uint64_t book;
void prepare_weights(Weight w, uint lanes) { book = w.book; }

// Of each four bits a byte of ones.
uint spread_signs(uint bits) { return ((bits & 15u) * 0x00204081u & 0x01010101u) * 255u; }

// Eight signs of seven: the eighth makes the number of those that are set even.
uint even_signs(uint seven) { return seven | (uint(bitCount(seven)) & 1u) << 7; }

// Four elements, number `i` of a block's eight, as signed bytes (iq1: less ZERO).
uint book_word(RawBlock raw, uint i) {
#if IQ1
    const uint nibble = WEIGHT == IQ1_S ? (raw.high >> (3u * (i / 2u)) & 7u) | raw.high >> 12 & 8u
                                        : raw.high >> (4u * (i / 2u)) & 15u;
    const uint point = (raw.quants >> (8u * (i / 2u)) & 255u) | (nibble & 7u) << 8;
    const uint levels = Uints(book).at[2u * point + i % 2u];
    return (nibble & 8u) != 0u ? levels - 0x01010101u : levels + 0x01010101u;
#elif IQ3
    const uint at = raw.quants[i / 4u] >> (8u * (i % 4u)) & 255u;
#if WEIGHT == IQ3_S
    const uint levels = Uints(book).at[at | (raw.scales >> i & 1u) << 8];
    const uint signs = spread_signs(raw.high >> (4u * i));
#else
    const uint levels = Uints(book).at[at];
    const uint signs = spread_signs(even_signs(raw.high >> (7u * (i / 2u)) & 127u) >> (4u * (i % 2u)));
#endif
    return (levels ^ signs) + (signs & 0x01010101u);
#else
#if WEIGHT == IQ2_S
    const uint point = (raw.quants.x >> (8u * (i / 2u)) & 255u) | (raw.scales >> (2u * (i / 2u)) & 3u) << 8;
    const uint eight = raw.quants.y >> (8u * (i / 2u));
#elif WEIGHT == IQ2_XS
    const uint both = raw.quants[i / 4u] >> (16u * (i / 2u % 2u)) & 0xffffu;
    const uint point = both & 511u, eight = even_signs(both >> 9);
#else
    const uint point = raw.quants.x >> (8u * (i / 2u)) & 255u;
    const uint eight = even_signs(raw.quants.y >> (7u * (i / 2u)) & 127u);
#endif
    const uint levels = Uints(book).at[2u * point + i % 2u], signs = spread_signs(eight >> (4u * (i % 2u)));
    return (levels ^ signs) + (signs & 0x01010101u);
#endif
}
#else
void prepare_weights(Weight w, uint lanes) {}
#endif

#if NIBBLES
// The low and the high nibbles of a word of quants, with their bits beyond.
uvec2 nibble_bytes(RawBlock raw, uint word) {
    uvec2 bytes = uvec2(raw.quants[0][word], raw.quants[0][word] >> 4) & 0x0f0f0f0fu;
#if HIGH == 4
    bytes |= uvec2(moved(raw.high, word, 4u), moved(raw.high, 4u + word, 4u)) & 0x10101010u;
#elif HIGH == 8
    bytes |= uvec2(moved(raw.high.x, 2u * word, 4u), moved(raw.high.y, 2u * word, 4u)) & 0x30303030u;
#endif
    return bytes;
}
#endif

#ifndef DECODES_TO_F16
Block decode_block(RawBlock raw) {
    Block b;
    decode_scales(raw, b.scale, b.offset);
    b.offset -= float(ZERO) * b.scale;
#if QUANTS == 32
    b.q[0] = raw.quants[0];
    b.q[1] = raw.quants[1];
#elif TABLE
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uint word = raw.quants[0][i];
        const uint even = number_table[word & 255u] | number_table[word >> 8 & 255u] << 8;
        const uint odd = number_table[word >> 16 & 255u] | number_table[word >> 24] << 8;
        b.q[0][i] = (even & 0xffffu) | odd << 16;
        b.q[1][i] = even >> 16 | (odd & 0xffff0000u);
    }
#elif BOOK
    [[unroll]] for (uint i = 0u; i < 8u; ++i) b.q[i / 4u][i % 4u] = book_word(raw, i);
#elif TWO_BITS
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        [[unroll]] for (uint side = 0u; side < 2u; ++side) {
            b.q[side][i] = raw.quants[side] >> (2u * i) & 0x03030303u;
#if HIGH == 4
            b.q[side][i] |= moved(raw.high, 4u * side + i, 2u) & 0x04040404u;
#endif
        }
    }
#else
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uvec2 bytes = nibble_bytes(raw, i);
        b.q[0][i] = bytes.x;
        b.q[1][i] = bytes.y;
    }
#endif
    return b;
}

Block load_block(Weight w, uint row, uint block, uint blocks) {
    return decode_block(load_raw(w, place_of(row, block, blocks), row * blocks + block));
}

// Four elements, beginning at 4 * `i`, of a block.
vec4 block_values(Block b, uint i) {
    const uint bytes = b.q[i >> 2][i & 3u];
    return b.scale[i >> 2] * vec4(unpack8(int(bytes))) + b.offset[i >> 2];
}
#endif
#else
void prepare_weights(Weight w, uint lanes) {}
#endif

// Four elements of a plain matrix with rows of 4 * `quads`, beginning at element 4 * `quad` of row `row`.
vec4 plain_values(Weight w, uint row, uint quad, uint quads) {
    uint i = row * quads + quad;
    if (TILED) i = 2u * chunk_at(place_of(row, quad / 8u, quads / 8u), quad % 8u / 2u) + quad % 2u;
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

// One element of a plain matrix, for rows that are no multiple of four: none in tiles.
float plain_value(Weight w, uint i) {
#if WEIGHT == F32
    return Floats(w.quants).at[i];
#elif WEIGHT == F16
    return float(Halves(w.quants).at[i]);
#else
    return uintBitsToFloat(uint(Shorts(w.quants).at[i]) << 16);
#endif
}
