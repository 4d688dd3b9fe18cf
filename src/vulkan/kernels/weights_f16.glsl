// Blocks of 32 weights as f16, in the order in which matrix kernels lay them into shared memory: each four elements as 0, 2,
// 1, 3. That is how pairs of bytes and nibbles come apart by masks, two values to a word; a product does not care about the
// order of its inputs as long as the activations have the same (see in_pair_order). To come after weights.glsl.
//
// A block has two parts of 16 elements. A kernel can decode one and have the next block's loaded in its place while it
// multiplies, and then do the same with the other.

// Eight f16, in order before, in the order of pairs after.
uvec4 in_pair_order(uvec4 v) {
    return uvec4((v.x & 0xffffu) | (v.y << 16), (v.x >> 16) | (v.y & 0xffff0000u), (v.z & 0xffffu) | (v.w << 16),
                 (v.z >> 16) | (v.w & 0xffff0000u));
}

#if PLAIN
struct RawBlock {
    uvec4 quants[4];
};

RawBlock load_raw(Weight w, uint place, uint block) {
    RawBlock raw;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) raw.quants[i] = Uint4s(w.quants).at[4u * place + i];
    return raw;
}
#endif

// 0x6400 is 1024 as f16, whose last bit counts 1: the bits of an integer n below 1024 put there make 1024 + n, exactly.
// A kernel may define PAIR_BASE as a variable of this value: an instruction takes one constant, so mask and base need two.
#ifndef PAIR_BASE
#define PAIR_BASE 0x64006400u
#endif

#define NIBBLES !(PLAIN || WEIGHT == Q8_0)  // each word holds four elements of the first half and four of the second

// Which four elements of a block, of eight, are the four number `i` of a part: what half of the block's words hold.
uint four_of(uint part, uint i) {
#if NIBBLES
    return i / 2u * 4u + 2u * part + i % 2u;
#else
    return 4u * part + i;
#endif
}

// Loads another block part after part: its words, and with the last what it has beside them, which both parts need.
void load_part(Weight w, uint place, uint block, uint part, inout RawBlock raw) {
#if NIBBLES
    const uvec2 words = Uint2s(w.quants).at[2u * place + part];
    if (part == 0u) {
        raw.quants[0].xy = words;
    } else {
        const uvec2 first = raw.quants[0].xy;
        raw = load_raw(w, place, block);
        raw.quants[0] = uvec4(first, words);
    }
#else
    if (part == 1u) raw = load_raw(w, place, block);
#endif
}

#if WEIGHT == Q4_0
// Both ways to n - 8 are exact: 1024 + n - 1032 for a low nibble, (1024 + 16 n) / 16 - 72 for a high one. So the product with
// the scale is rounded once, like a product in f32 that is then made f16.
uint low_nibbles(uint q, f16vec2 scale) {
    return packFloat2x16((unpackFloat2x16((q & 0x000f000fu) | PAIR_BASE) - f16vec2(1032.0hf)) * scale);
}

uint high_nibbles(uint q, f16vec2 scale) {
    const f16vec2 n = unpackFloat2x16((q & 0x00f000f0u) | PAIR_BASE);
    return packFloat2x16(fma(n, f16vec2(0.0625hf), f16vec2(-72.0hf)) * scale);
}

void decode_part(RawBlock raw, uint block, uint part, out uvec4 values[2]) {
    const f16vec2 scale = f16vec2(uint16BitsToHalf(uint16_t(raw.scales)));
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        const uint q = raw.quants[0][2u * part + i];
        values[0][2u * i] = low_nibbles(q, scale);
        values[0][2u * i + 1u] = low_nibbles(q >> 8, scale);
        values[1][2u * i] = high_nibbles(q, scale);
        values[1][2u * i + 1u] = high_nibbles(q >> 8, scale);
    }
}
#elif PLAIN
void decode_part(RawBlock raw, uint block, uint part, out uvec4 values[2]) {
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        const uvec4 quants = raw.quants[2u * part + i];
#if WEIGHT == F16
        values[i] = in_pair_order(quants);
#else
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            const uint low = quants[2u * j], high = quants[2u * j + 1u];
            values[i][2u * j] = packFloat2x16(f16vec2(uintBitsToFloat(uvec2(low << 16, high << 16))));
            values[i][2u * j + 1u] = packFloat2x16(f16vec2(uintBitsToFloat(uvec2(low, high) & 0xffff0000u)));
        }
#endif
    }
}
#else
// Types without an offset but with a zero: q - zero is exact, and the scale is an f16, or of Q6_K the product of one and an
// integer, which is rounded to f16 first. Scales may be as small as 2^-24: for devices that do not take that for nothing.
#if defined(SCALES_IN_F16) && (WEIGHT == Q8_0 || WEIGHT == Q5_0 || WEIGHT == Q6_K)
#define HALF_SCALE 1
#else
#define HALF_SCALE 0
#endif

// What the bits of a byte put after PAIR_BASE have too much.
#if WEIGHT == Q8_0
const uint SIGNS = 0x00800080u;  // signed bytes: 128 is added first
const float16_t ZERO = 1152.0hf;
#else
const uint SIGNS = 0u;
const float16_t ZERO = HALF_SCALE == 0 ? 1024.0hf : WEIGHT == Q5_0 ? 1040.0hf : 1056.0hf;
#endif

#if HALF_SCALE
uint scaled_pair(uint pair, Block b, uint side) {
    return packFloat2x16((unpackFloat2x16((pair ^ SIGNS) | PAIR_BASE) - f16vec2(ZERO)) * f16vec2(float16_t(b.scale[side])));
}
#else
// In f16 scale and offset would lose bits.
uint scaled_pair(uint pair, Block b, uint side) {
    const vec2 q = vec2(unpackFloat2x16((pair ^ SIGNS) | PAIR_BASE) - f16vec2(ZERO));
    return packFloat2x16(f16vec2(fma(vec2(b.scale[side]), q, vec2(b.offset[side]))));
}
#endif

void decode_part(RawBlock raw, uint block, uint part, out uvec4 values[2]) {
    const Block b = decode_block(raw, block);
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            const uint four = four_of(part, 2u * i + j), bytes = b.q[four / 4u][four % 4u];
            values[i][2u * j] = scaled_pair(bytes & 0x00ff00ffu, b, four / 4u);
            values[i][2u * j + 1u] = scaled_pair((bytes >> 8) & 0x00ff00ffu, b, four / 4u);
        }
    }
}
#endif

void decode_f16(RawBlock raw, uint block, out uvec4 values[4]) {
    [[unroll]] for (uint part = 0u; part < 2u; ++part) {
        uvec4 of_part[2];
        decode_part(raw, block, part, of_part);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) values[four_of(part, 2u * i) / 2u] = of_part[i];
    }
}
