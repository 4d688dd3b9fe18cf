#include <cstring>

#include "base/check.h"
#include "base/float16.h"
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
        case DType::q8_0:
            return decode_blocks<BlockQ8_0>(in, out, cols);
        case DType::q4_0:
            return decode_blocks<BlockQ4_0>(in, out, cols);
        case DType::q4_1:
            return decode_blocks<BlockQ4_1>(in, out, cols);
        case DType::q5_0:
            return decode_blocks<BlockQ5_0>(in, out, cols);
        case DType::q5_1:
            return decode_blocks<BlockQ5_1>(in, out, cols);
        case DType::q4_k:
            return decode_blocks<BlockQ4_K>(in, out, cols);
        case DType::q5_k:
            return decode_blocks<BlockQ5_K>(in, out, cols);
        case DType::q6_k:
            return decode_blocks<BlockQ6_K>(in, out, cols);
    }
}

}  // namespace tandem::format
