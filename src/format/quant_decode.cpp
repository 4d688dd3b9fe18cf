#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "format/decode_block.h"
#include "format/quant.h"

namespace tandem::format {

namespace {

// Blocks of 32: element i in the low nibbles for i < 16, in the high ones after.
int nibble(const uint8_t* qs, int i) {
    return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

int bit(const uint8_t* bits, int i) {
    return (bits[i / 8] >> (i % 8)) & 1;
}

void decode(const BlockQ8_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(b.qs[i]);
}

void decode(const BlockQ4_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(b.qs, i) - 8);
}

void decode(const BlockQ4_1& b, float* out) {
    const float d = f16_to_f32(b.d);
    const float m = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(b.qs, i)) + m;
}

void decode(const BlockQ5_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>((nibble(b.qs, i) | (bit(b.qh, i) << 4)) - 16);
}

void decode(const BlockQ5_1& b, float* out) {
    const float d = f16_to_f32(b.d);
    const float m = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(b.qs, i) | (bit(b.qh, i) << 4)) + m;
}

// q4_k, and q5_k when `qh` is given.
template <typename Block>
void decode_k(const Block& b, const uint8_t* qh, float* out) {
    for (int s = 0; s < 8; ++s) {
        const KScaleMin sm = k_scale_min(b.scales, s);
        const float scale = f16_to_f32(b.d) * static_cast<float>(sm.scale);
        const float min = f16_to_f32(b.dmin) * static_cast<float>(sm.min);
        for (int i = 0; i < 32; ++i) {
            const uint8_t byte = b.qs[s / 2 * 32 + i];
            int q = s % 2 == 0 ? byte & 15 : byte >> 4;
            if (qh != nullptr) q |= ((qh[i] >> s) & 1) << 4;
            out[s * 32 + i] = scale * static_cast<float>(q) - min;
        }
    }
}

void decode(const BlockQ4_K& b, float* out) {
    decode_k(b, nullptr, out);
}

void decode(const BlockQ5_K& b, float* out) {
    decode_k(b, b.qh, out);
}

void decode(const BlockQ6_K& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int e = 0; e < 256; ++e) {
        const int half = e / 128;
        const int group = e % 128 / 32;
        const int l = e % 32;
        const uint8_t low = b.ql[half * 64 + group % 2 * 32 + l];
        const int high = (b.qh[half * 32 + l] >> (2 * group)) & 3;
        const int q = ((group < 2 ? low & 15 : low >> 4) | (high << 4)) - 32;
        const int sub_block = e / 16;
        out[e] = d * static_cast<float>(b.scales[sub_block]) * static_cast<float>(q);
    }
}

// The 2 bits of element e of q2_k, q3_k and tq2_0.
int two_bits(const uint8_t* qs, int e) {
    return (qs[e / 128 * 32 + e % 32] >> (2 * (e % 128 / 32))) & 3;
}

void decode(const BlockQ2_K& b, float* out) {
    const float d = f16_to_f32(b.d);
    const float dmin = f16_to_f32(b.dmin);
    for (int e = 0; e < 256; ++e) {
        const uint8_t both = b.scales[e / 16];
        const float scale = d * static_cast<float>(both & 15);
        const float min = dmin * static_cast<float>(both >> 4);
        out[e] = scale * static_cast<float>(two_bits(b.qs, e)) - min;
    }
}

void decode(const BlockQ3_K& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int e = 0; e < 256; ++e) {
        const int high = (b.hmask[e % 32] >> (e / 32)) & 1;
        const int q = (two_bits(b.qs, e) | high << 2) - 4;
        out[e] = d * static_cast<float>(q3_k_scale(b.scales, e / 16) - 32) * static_cast<float>(q);
    }
}

void decode(const BlockIQ4_NL& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(kIq4Values[nibble(b.qs, i)]);
}

void decode(const BlockIQ4_XS& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int s = 0; s < 8; ++s) {
        const float scale = d * static_cast<float>(iq4_xs_scale(b, s) - 32);
        for (int i = 0; i < 32; ++i) out[32 * s + i] = scale * static_cast<float>(kIq4Values[nibble(b.qs + 16 * s, i)]);
    }
}

void decode(const BlockMXFP4& b, float* out) {
    const float scale = mxfp4_scale(b.e);
    for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(kFp4Values[nibble(b.qs, i)]);
}

void decode(const BlockNVFP4& b, float* out) {
    for (int e = 0; e < 64; ++e) {
        const int s = e / 16;
        const uint8_t byte = b.qs[8 * s + e % 8];
        const int q = e % 16 < 8 ? byte & 15 : byte >> 4;
        out[e] = ue4m3_to_f32(b.d[s]) / 2.0F * static_cast<float>(kFp4Values[q]);
    }
}

void decode(const BlockTQ1_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    const auto put = [&](int first, const uint8_t* bytes, int count, int digits) {
        for (int n = 0; n < digits; ++n) {
            for (int i = 0; i < count; ++i)
                out[first + count * n + i] = d * static_cast<float>(ternary_digit(bytes[i], n) - 1);
        }
    };
    put(0, b.qs, 32, 5);
    put(160, b.qs + 32, 16, 5);
    put(240, b.qh, 4, 4);
}

void decode(const BlockTQ2_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int e = 0; e < 256; ++e) out[e] = d * static_cast<float>(two_bits(b.qs, e) - 1);
}

void decode(const BlockQ2_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int e = 0; e < 64; ++e) out[e] = d * static_cast<float>((b.qs[e / 4] >> (2 * (e % 4)) & 3) - 1);
}

void decode(const BlockQ1_0& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int e = 0; e < 128; ++e) out[e] = (b.qs[e / 8] >> (e % 8) & 1) != 0 ? d : -d;
}

template <typename Block>
void decode_blocks(const std::byte* in, float* out, int64_t cols) {
    CHECK(cols % Block::kElements == 0, "a row is a whole number of blocks");
    for (int64_t i = 0; i < cols; i += Block::kElements, in += sizeof(Block)) {
        Block block;
        std::memcpy(&block, in, sizeof(Block));
        decode(block, out + i);
    }
}

template <typename T, typename Convert>
void decode_plain(const std::byte* in, float* out, int64_t cols, Convert convert) {
    for (int64_t i = 0; i < cols; ++i) {
        T value;
        std::memcpy(&value, in + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
        out[i] = convert(value);
    }
}

}  // namespace

void decode_row(DType dtype, const std::byte* in, float* out, int64_t cols) {
    switch (dtype) {
        case DType::f32:
            if (cols > 0) std::memcpy(out, in, static_cast<size_t>(cols) * sizeof(float));  // no null to memcpy
            return;
        case DType::f16:
            return decode_plain<uint16_t>(in, out, cols, f16_to_f32);
        case DType::bf16:
            return decode_plain<uint16_t>(in, out, cols, bf16_to_f32);
        case DType::i32:
            return decode_plain<int32_t>(in, out, cols, [](int32_t value) { return static_cast<float>(value); });
        default:
            return with_block(dtype,
                              [&]<typename Block>(std::type_identity<Block>) { decode_blocks<Block>(in, out, cols); });
    }
}

float ue4m3_to_f32(uint8_t bits) {
    const int exponent = (bits >> 3) & 15;
    const int mantissa = bits & 7;
    if ((bits & 127) == 127) return 0.0F;
    if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), -9);
    return std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

float mxfp4_scale(uint8_t e) {
    return std::ldexp(1.0F, e - 128);
}

}  // namespace tandem::format
