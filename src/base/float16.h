// Conversions between f32 and the two 16-bit floats, with round to nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace tandem {

inline float bf16_to_f32(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t f32_to_bf16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);  // keep NaN a NaN
    return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t rest = bits & 0x7fffU;
    if (rest >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13));  // inf, NaN
    if (rest >= 0x400U) return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));           // normal
    const float magnitude = static_cast<float>(rest) * 0x1p-24F;                                     // subnormal, zero
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

inline uint16_t f32_to_f16(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
    const uint32_t rest = bits & 0x7fffffffU;
    if (rest > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);   // NaN
    if (rest >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // rounds to 65536 or more
    if (rest < 0x38800000U) {                                               // below 2^-14: subnormal
        const float scaled = std::bit_cast<float>(rest) + 0.5F;             // the adder does the rounding at 2^-24
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - std::bit_cast<uint32_t>(0.5F)));
    }
    const uint32_t rounded = rest + 0xfffU + ((rest >> 13) & 1U);
    return static_cast<uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

}  // namespace tandem
