// Blocks of 32 weights as f16, in the order in which matrix kernels lay them into shared memory: each four elements as 0, 2,
// 1, 3. That is how pairs of bytes and nibbles come apart by masks, two values to a word; a product does not care about the
// order of its inputs as long as the activations have the same (see in_pair_order). To come after weights.glsl, before which
// DECODES_TO_F16 was defined.
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
    [[unroll]] for (uint i = 0u; i < 4u; ++i) raw.quants[i] = Uint4s(w.quants).at[chunk_at(place, i)];
    return raw;
}
#endif

// 0x6400 is 1024 as f16, whose last bit counts 1: the bits of an integer n below 1024 put there make 1024 + n, exactly.
// A kernel may define PAIR_BASE as a variable of this value: an instruction takes one constant, so mask and base need two.
#ifndef PAIR_BASE
#define PAIR_BASE 0x64006400u
#endif

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

#if PLAIN
void decode_part(RawBlock raw, uint part, out uvec4 values[2]) {
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

// Scale and offset of a half of the block, as what q is multiplied with. Scales may be as small as 2^-24: in f16 for devices
// that do not take that for nothing. A scale that is no f16 by itself (a product of two numbers) is rounded there first, and
// so is an offset: each adds at most 2^-11 of itself to the error of the rounding of the value.
#ifdef SCALES_IN_F16
struct Scaling {
    f16vec2 scale, offset;
};
Scaling scaling_of(RawBlock raw, uint side) {
#if F16_SCALES
    const f16vec2 both = unpackFloat2x16(raw.scales);
    return Scaling(both.xx, both.yy);
#else
    vec2 scale, offset;
    decode_scales(raw, scale, offset);
    return Scaling(f16vec2(float16_t(scale[side])), f16vec2(float16_t(offset[side])));
#endif
}
uint scaled(f16vec2 q, Scaling s) { return packFloat2x16(OFFSETS ? fma(q, s.scale, s.offset) : q * s.scale); }
#else
struct Scaling {
    vec2 scale, offset;
};
Scaling scaling_of(RawBlock raw, uint side) {
    vec2 scale, offset;
    decode_scales(raw, scale, offset);
    return Scaling(vec2(scale[side]), vec2(offset[side]));
}
uint scaled(f16vec2 q, Scaling s) { return packFloat2x16(f16vec2(fma(vec2(q), s.scale, s.offset))); }
#endif

// Two q less their zero, exactly: bits of n whose last one counts 1 / `one` (of a half of the word).
f16vec2 number_pair(uint bits, float16_t one) {
    const f16vec2 n = unpackFloat2x16(bits | PAIR_BASE);
    const float16_t zero = float16_t(ZERO);
    return one == 1.0hf ? n - f16vec2(1024.0hf + zero) : fma(n, f16vec2(one), f16vec2(-1024.0hf * one - zero));
}

#if QUANTS == 32 || BOOK
// Signed bytes: 128 is added first.
uint scaled_bytes(uint bytes, Scaling s) {
    const f16vec2 n = unpackFloat2x16((bytes & 0x00ff00ffu) ^ (PAIR_BASE ^ 0x00800080u));
    return scaled(n - f16vec2(float16_t(1152 + ZERO)), s);
}

#if BOOK
uint word_of(RawBlock raw, uint half_, uint i) { return book_word(raw, 4u * half_ + i); }
#else
uint word_of(RawBlock raw, uint half_, uint i) { return raw.quants[half_][i]; }
#endif

void decode_part(RawBlock raw, uint part, out uvec4 values[2]) {
    const Scaling s = scaling_of(raw, part);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uint bytes = word_of(raw, part, i);
        values[i / 2u][i % 2u * 2u] = scaled_bytes(bytes, s);
        values[i / 2u][i % 2u * 2u + 1u] = scaled_bytes(bytes >> 8, s);
    }
}
#elif TWO_BITS
void decode_part(RawBlock raw, uint part, out uvec4 values[2]) {
    const Scaling s = scaling_of(raw, part);
    const float16_t ones[4] = float16_t[](1.0hf, 0.25hf, 0.0625hf, 0.015625hf);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uint mask = 0x00030003u << (2u * i);
        uint even = raw.quants[part] & mask, odd = raw.quants[part] >> 8 & mask;
#if HIGH == 4
        const uint top = 0x00040004u << (2u * i);
        even |= moved(raw.high, 4u * part + i, 2u * i + 2u) & top;
        odd |= moved(raw.high, 8u + 4u * part + i, 2u * i + 2u) & top;
#endif
        values[i / 2u][i % 2u * 2u] = scaled(number_pair(even, ones[i]), s);
        values[i / 2u][i % 2u * 2u + 1u] = scaled(number_pair(odd, ones[i]), s);
    }
}
#else
// Of a word of nibbles the elements of bytes 0 and 2 (`odd`: 1 and 3), of the low nibbles and of the high ones.
uvec2 nibble_pairs(RawBlock raw, uint word, bool odd, Scaling low, Scaling high) {
    const uint q = raw.quants[0][word];
#if TABLE
    const uint a = number_table[q >> (odd ? 8u : 0u) & 255u], b = number_table[q >> (odd ? 24u : 16u) & 255u];
    return uvec2(scaled(unpackFloat2x16((a & 0xffffu) | b << 16), low),
                 scaled(unpackFloat2x16(a >> 16 | (b & 0xffff0000u)), high));
#elif HIGH != 0
    // first whole bytes, four at a time
    const uvec2 bytes = nibble_bytes(raw, word) >> (odd ? 8u : 0u) & 0x00ff00ffu;
    return uvec2(scaled(number_pair(bytes.x, 1.0hf), low), scaled(number_pair(bytes.y, 1.0hf), high));
#else
    const uint at = odd ? q >> 8 : q;
    return uvec2(scaled(number_pair(at & 0x000f000fu, 1.0hf), low),
                 scaled(number_pair(at & 0x00f000f0u, 0.0625hf), high));
#endif
}

void decode_part(RawBlock raw, uint part, out uvec4 values[2]) {
    const Scaling low = scaling_of(raw, 0u), high = scaling_of(raw, TWO_SCALES ? 1u : 0u);
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
        const uvec2 pairs = nibble_pairs(raw, 2u * part + i / 2u, i % 2u != 0u, low, high);
        values[0][i] = pairs.x;
        values[1][i] = pairs.y;
    }
}
#endif
#endif

void decode_f16(RawBlock raw, out uvec4 values[4]) {
    [[unroll]] for (uint part = 0u; part < 2u; ++part) {
        uvec4 of_part[2];
        decode_part(raw, part, of_part);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) values[four_of(part, 2u * i) / 2u] = of_part[i];
    }
}
