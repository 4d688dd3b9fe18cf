// Blocks of 32 weights as f16, and halves of them (`side`: elements 0..15 or 16..31), in the order in which matrix kernels
// lay them into shared memory: each four elements as 0, 2, 1, 3. That is how pairs of bytes and nibbles come apart by masks, two values to a word; a product does not care
// about the order of its inputs as long as the activations have the same (see in_pair_order). To come after weights.glsl.

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

void decode_half(RawBlock raw, uint block, uint side, out uvec4 values[2]) {
    const f16vec2 scale = unpackFloat2x16(raw.scales).xx;
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            const uint q = raw.quants[0][2u * i + j];
            values[i][2u * j] = side == 0u ? low_nibbles(q, scale) : high_nibbles(q, scale);
            values[i][2u * j + 1u] = side == 0u ? low_nibbles(q >> 8, scale) : high_nibbles(q >> 8, scale);
        }
    }
}
#elif PLAIN
void decode_half(RawBlock raw, uint block, uint side, out uvec4 values[2]) {
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        const uvec4 quants = raw.quants[2u * side + i];
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
// Two of four bytes as f32, without the slow conversions of integers. Those of Q8_0 are signed, so 128 is added first.
vec2 byte_values(uint pair) {
#if WEIGHT == Q8_0
    return vec2(unpackFloat2x16((pair ^ 0x00800080u) | PAIR_BASE) - f16vec2(1152.0hf));
#else
    return vec2(unpackFloat2x16(pair | PAIR_BASE) - f16vec2(1024.0hf));
#endif
}

// Scale and offset are applied in f32: in f16 those of the K types would lose bits.
uint scaled_pair(uint pair, float scale, float offset) {
    return packFloat2x16(f16vec2(scale * byte_values(pair) + offset));
}

void decode_half(RawBlock raw, uint block, uint side, out uvec4 values[2]) {
    const Block b = decode_block(raw, block);
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        [[unroll]] for (uint j = 0u; j < 2u; ++j) {
            const uint bytes = b.q[side][2u * i + j];
            values[i][2u * j] = scaled_pair(bytes & 0x00ff00ffu, b.scale[side], b.offset[side]);
            values[i][2u * j + 1u] = scaled_pair((bytes >> 8) & 0x00ff00ffu, b.scale[side], b.offset[side]);
        }
    }
}
#endif

void decode_f16(RawBlock raw, uint block, out uvec4 values[4]) {
    [[unroll]] for (uint side = 0u; side < 2u; ++side) {
        uvec4 half_values[2];
        decode_half(raw, block, side, half_values);
        [[unroll]] for (uint i = 0u; i < 2u; ++i) values[2u * side + i] = half_values[i];
    }
}
