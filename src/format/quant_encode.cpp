// Integers and their packing, for the scales that format/encode_search.h finds.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/float16.h"
#include "format/encode_block.h"
#include "format/quant.h"

namespace tandem::format {

namespace {

// In every encode() the integers follow from the scale as it is stored, so its rounding costs nothing twice.

void encode(Elements in, BlockQ8_0& b) {
    float largest = 0.0F;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(in.x[i]));
    b.d = to_f16(largest / 127.0F);
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<int8_t>(nearest_int(in.x[i] * inverse, -127, 127));
}

void encode(Elements in, BlockQ4_0& b) {
    b.d = to_f16(best_scale<32>(in, -8));
    const float inverse = reciprocal(f16_to_f32(b.d));
    const std::array<uint8_t, 32> q = integers<32>(in.x, 0.0F, inverse, -8, 7, 8);
    for (size_t i = 0; i < 16; ++i) b.qs[i] = static_cast<uint8_t>(q[i] | q[i + 16] << 4);
}

void encode(Elements in, BlockQ4_1& b) {
    const Affine fit = best_affine<32>(in, {.levels = 15});
    b.d = to_f16(fit.scale);
    b.m = to_f16(fit.min);
    const float inverse = reciprocal(f16_to_f32(b.d));
    const float min = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) put_nibble(b.qs, i, nearest_int((in.x[i] - min) * inverse, 0, 15));
}

void encode(Elements in, BlockQ5_0& b) {
    b.d = to_f16(best_scale<32>(in, -16));
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int i = 0; i < 32; ++i) {
        const int q = nearest_int(in.x[i] * inverse, -16, 15) + 16;
        put_nibble(b.qs, i, q);
        put_bit(b.qh, i, q >> 4);
    }
}

void encode(Elements in, BlockQ5_1& b) {
    const Affine fit = best_affine<32>(in, {.levels = 31});
    b.d = to_f16(fit.scale);
    b.m = to_f16(fit.min);
    const float inverse = reciprocal(f16_to_f32(b.d));
    const float min = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) {
        const int q = nearest_int((in.x[i] - min) * inverse, 0, 31);
        put_nibble(b.qs, i, q);
        put_bit(b.qh, i, q >> 4);
    }
}

// The inverse of k_scale_min().
void put_k_scale_min(uint8_t* scales, int s, int scale, int min) {
    const auto merge = [](uint8_t& byte, int bits) { byte = static_cast<uint8_t>(byte | bits); };
    if (s < 4) {
        merge(scales[s], scale);
        merge(scales[s + 4], min);
    } else {
        merge(scales[s + 4], (scale & 15) | ((min & 15) << 4));
        merge(scales[s - 4], (scale >> 4) << 6);
        merge(scales[s], (min >> 4) << 6);
    }
}

// The scales of q4_k and q5_k, and the integers of all elements.
template <typename Block>
void encode_k_scales(Elements in, int levels, Block& b, std::array<uint8_t, 256>& q) {
    std::array<Affine, 8> fits;
    float largest_scale = 0.0F;
    float largest_min = 0.0F;
    for (int s = 0; s < 8; ++s) {
        fits[s] = best_affine<32>(in.from(s * 32), {.levels = levels, .min_below_zero = true});
        largest_scale = std::max(largest_scale, fits[s].scale);
        largest_min = std::max(largest_min, -fits[s].min);
    }
    b.d = to_f16(largest_scale / 63.0F);
    b.dmin = to_f16(largest_min / 63.0F);
    const float d = f16_to_f32(b.d);
    const float dmin = f16_to_f32(b.dmin);
    for (int s = 0; s < 8; ++s) {
        const int scale = nearest_int(fits[s].scale * reciprocal(d), 0, 63);
        const int min = nearest_int(-fits[s].min * reciprocal(dmin), 0, 63);
        put_k_scale_min(b.scales, s, scale, min);
        const float inverse = reciprocal(d * static_cast<float>(scale));
        const float offset = dmin * static_cast<float>(min);
        const std::array<uint8_t, 32> part = integers<32>(in.x + s * 32, offset, inverse, 0, levels, 0);
        std::memcpy(&q[static_cast<size_t>(s) * 32], part.data(), part.size());
    }
}

void put_k_nibbles(const std::array<uint8_t, 256>& q, uint8_t* qs) {
    for (int chunk = 0; chunk < 4; ++chunk) {
        for (int i = 0; i < 32; ++i) {
            const int first = chunk * 64 + i;
            qs[chunk * 32 + i] = static_cast<uint8_t>((q[first] & 15) | ((q[first + 32] & 15) << 4));
        }
    }
}

void encode(Elements in, BlockQ4_K& b) {
    std::array<uint8_t, 256> q;
    encode_k_scales(in, 15, b, q);
    put_k_nibbles(q, b.qs);
}

void encode(Elements in, BlockQ5_K& b) {
    std::array<uint8_t, 256> q;
    encode_k_scales(in, 31, b, q);
    put_k_nibbles(q, b.qs);
    for (int e = 0; e < 256; ++e) b.qh[e % 32] = static_cast<uint8_t>(b.qh[e % 32] | ((q[e] >> 4) << (e / 32)));
}

void encode(Elements in, BlockQ6_K& b) {
    std::array<float, 16> scales;
    for (int s = 0; s < 16; ++s) scales[s] = best_scale<16>(in.from(s * 16), -32);
    b.d = to_f16(largest_magnitude(scales) / -128.0F);
    const float d = f16_to_f32(b.d);
    for (int s = 0; s < 16; ++s) b.scales[s] = static_cast<int8_t>(nearest_int(scales[s] * reciprocal(d), -128, 127));
    for (int e = 0; e < 256; ++e) {
        const int sub_block = e / 16;
        const float inverse = reciprocal(d * static_cast<float>(b.scales[sub_block]));
        const int q = nearest_int(in.x[e] * inverse, -32, 31) + 32;
        const int half = e / 128;
        const int group = e % 128 / 32;
        const int l = e % 32;
        uint8_t& low = b.ql[half * 64 + group % 2 * 32 + l];
        uint8_t& high = b.qh[half * 32 + l];
        low = static_cast<uint8_t>(low | ((q & 15) << (group < 2 ? 0 : 4)));
        high = static_cast<uint8_t>(high | ((q >> 4) << (2 * group)));
    }
}

template <typename Block>
void encode_blocks(const float* in, std::byte* out, int64_t cols, const float* importance) {
    CHECK(cols % Block::kElements == 0, "a row is a whole number of blocks");
    std::array<float, Block::kElements> finite;
    for (int64_t i = 0; i < cols; i += Block::kElements, out += sizeof(Block)) {
        for (int k = 0; k < Block::kElements; ++k)
            finite[k] = std::isnan(in[i + k]) ? 0.0F : std::clamp(in[i + k], -kF16Max, kF16Max);
        Block block{};
        encode({finite.data(), importance == nullptr ? nullptr : importance + i}, block);
        std::memcpy(out, &block, sizeof(Block));
    }
}

void encode_16(const float* in, std::byte* out, int64_t cols, uint16_t (*convert)(float)) {
    for (int64_t i = 0; i < cols; ++i) {
        const uint16_t bits = convert(in[i]);
        std::memcpy(out + 2 * i, &bits, sizeof(bits));
    }
}

template <typename Block>
concept Encodable = requires(Block block) {
    encode(Elements{}, block);
};

}  // namespace

bool has_encoder(DType dtype) {
    if (!is_quantized(dtype)) return dtype != DType::i32;
    return with_block(dtype, []<typename Block>(std::type_identity<Block>) { return Encodable<Block>; });
}

void encode_row(DType dtype, const float* in, std::byte* out, int64_t cols, const float* importance) {
    CHECK(has_encoder(dtype), name(dtype));
    switch (dtype) {
        case DType::f32:
            if (cols > 0) std::memcpy(out, in, static_cast<size_t>(cols) * sizeof(float));  // no null to memcpy
            return;
        case DType::f16:
            return encode_16(in, out, cols, f32_to_f16);
        case DType::bf16:
            return encode_16(in, out, cols, f32_to_bf16);
        default:
            return with_block(dtype, [&]<typename Block>(std::type_identity<Block>) {
                if constexpr (Encodable<Block>) encode_blocks<Block>(in, out, cols, importance);
            });
    }
}

}  // namespace tandem::format
