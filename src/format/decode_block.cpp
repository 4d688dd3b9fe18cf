#include "format/decode_block.h"

#include <cstring>

#include "base/float16.h"
#include "format/codebooks.h"

namespace tandem::format {

namespace {

uint32_t load_u32(const uint8_t* bytes) {
    uint32_t word = 0;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
}

// Nibble i of a row of bytes, the low one of each first.
int nibble_at(const uint8_t* bytes, int i) {
    return (bytes[i / 2] >> (4 * (i % 2))) & 15;
}

// d * (1 + 2 * scale)
float odd_scale(float d, int scale) {
    return d * static_cast<float>(1 + 2 * scale);
}

// Eight elements of one point, with their signs.
void put_point2(uint16_t point, uint8_t signs, float scale, float* out) {
    for (int i = 0; i < 8; ++i) {
        const auto level = static_cast<float>(kIq2Levels[(point >> (2 * i)) & 3]);
        out[i] = (signs >> i & 1) != 0 ? -scale * level : scale * level;
    }
}

// Four elements of one point.
void put_point3(uint16_t point, const uint8_t (&levels)[8], int signs, float scale, float* out) {
    for (int i = 0; i < 4; ++i) {
        const auto level = static_cast<float>(levels[(point >> (3 * i)) & 7]);
        out[i] = (signs >> i & 1) != 0 ? -scale * level : scale * level;
    }
}

// Eight elements of one point, all moved by an eighth.
void put_point1(uint16_t point, bool down, float scale, float* out) {
    const float shift = down ? -0.125F : 0.125F;
    for (int i = 0; i < 8; ++i) out[i] = scale * (static_cast<float>(((point >> (2 * i)) & 3) - 1) + shift);
}

}  // namespace

void decode(const BlockIQ3_S& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int k = 0; k < 64; ++k) {
        const int high = (b.qh[k / 8] >> (k % 8)) & 1;
        const float scale = odd_scale(d, nibble_at(b.scales, k / 8));
        put_point3(kIq3SGrid[b.qs[k] | high << 8], kIq3SLevels, nibble_at(b.signs, k), scale, out + 4 * k);
    }
}

void decode(const BlockIQ3_XXS& b, float* out) {
    const float d = f16_to_f32(b.d) / 4.0F;
    for (int s = 0; s < 8; ++s) {
        const uint32_t word = load_u32(b.signs_scales + 4 * s);
        const float scale = odd_scale(d, static_cast<int>(word >> 28));
        for (int k = 0; k < 8; ++k) {
            const int signs = even_signs(word >> (7 * (k / 2)) & 127) >> (4 * (k % 2));
            put_point3(kIq3XxsGrid[b.qs[8 * s + k]], kIq3XxsLevels, signs, scale, out + 32 * s + 4 * k);
        }
    }
}

void decode(const BlockIQ2_S& b, float* out) {
    const float d = f16_to_f32(b.d) / 8.0F;
    for (int k = 0; k < 32; ++k) {
        const int high = (b.qh[k / 4] >> (2 * (k % 4))) & 3;
        put_point2(kIq2SGrid[b.qs[k] | high << 8], b.signs[k], odd_scale(d, nibble_at(b.scales, k / 2)), out + 8 * k);
    }
}

void decode(const BlockIQ2_XS& b, float* out) {
    const float d = f16_to_f32(b.d) / 8.0F;
    for (int k = 0; k < 32; ++k) {
        const float scale = odd_scale(d, nibble_at(b.scales, k / 2));
        put_point2(kIq2XsGrid[b.qs[k] & 511], even_signs(b.qs[k] >> 9), scale, out + 8 * k);
    }
}

void decode(const BlockIQ2_XXS& b, float* out) {
    const float d = f16_to_f32(b.d) / 8.0F;
    for (int s = 0; s < 8; ++s) {
        const uint8_t* points = b.qs + 8 * s;
        const uint32_t word = load_u32(points + 4);
        const float scale = odd_scale(d, static_cast<int>(word >> 28));
        for (int k = 0; k < 4; ++k)
            put_point2(kIq2XxsGrid[points[k]], even_signs(word >> (7 * k) & 127), scale, out + 32 * s + 8 * k);
    }
}

void decode(const BlockIQ1_S& b, float* out) {
    const float d = f16_to_f32(b.d);
    for (int k = 0; k < 32; ++k) {
        const int bits = b.qh[k / 4];
        const int high = (bits >> (3 * (k % 4))) & 7;
        const float scale = odd_scale(d, (bits >> 12) & 7);
        put_point1(kIq1Grid[b.qs[k] | high << 8], (bits >> 15) != 0, scale, out + 8 * k);
    }
}

void decode(const BlockIQ1_M& b, float* out) {
    const float d = f16_to_f32(iq1_m_scale(b));
    for (int k = 0; k < 32; ++k) {
        const int high = nibble_at(b.qh, k);
        const int s = k / 2;
        const float scale = odd_scale(d, (b.scales[s / 4] >> (3 * (s % 4))) & 7);
        put_point1(kIq1Grid[b.qs[k] | (high & 7) << 8], (high & 8) != 0, scale, out + 8 * k);
    }
}

}  // namespace tandem::format
