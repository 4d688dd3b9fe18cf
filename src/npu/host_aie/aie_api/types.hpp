// The numbers of the API: integers, bfloat16 and the accumulator types, and how one becomes the other under the modes
// of the core.
#pragma once

#include <aie_api/machine.hpp>

#include <bit>
#include <limits>
#include <type_traits>

// NOLINTBEGIN(readability-identifier-naming,google-explicit-constructor): names and conversions of the public API
using int8 = int8_t;
using uint8 = uint8_t;
using int16 = int16_t;
using uint16 = uint16_t;
using int32 = int32_t;
using uint32 = uint32_t;
using int64 = int64_t;
using uint64 = uint64_t;

namespace aie::detail {

// Whether the magnitude goes up by one, from what was cut off: its sign, whether it is more, less or just one half
// (or nothing at all), and the last bit that stays.
enum class Cut : uint8_t { nothing, below_half, half, above_half };

constexpr bool rounds_up(rounding_mode mode, bool negative, bool odd, Cut cut) {
    if (cut == Cut::nothing) return false;
    switch (mode) {
        case rounding_mode::floor:
            return negative;
        case rounding_mode::ceil:
            return !negative;
        case rounding_mode::symmetric_floor:
            return false;
        case rounding_mode::symmetric_ceil:
            return true;
        default:
            break;
    }
    if (cut != Cut::half) return cut == Cut::above_half;
    switch (mode) {
        case rounding_mode::negative_inf:
            return negative;
        case rounding_mode::positive_inf:
            return !negative;
        case rounding_mode::symmetric_zero:
            return false;
        case rounding_mode::symmetric_inf:
            return true;
        case rounding_mode::conv_even:
            return odd;
        default:
            return !odd;
    }
}

constexpr uint16_t to_bf16_bits(float value, rounding_mode mode) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t kept = bits >> 16;
    if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(kept | 0x40U);  // NaN stays one
    if (mode == rounding_mode::conv_even) {
        return static_cast<uint16_t>((bits + 0x7fffU + (kept & 1U)) >> 16);  // what nearly everybody wants, fast
    }
    const uint32_t cut = bits & 0xffffU;
    const Cut part = cut == 0         ? Cut::nothing
                     : cut < 0x8000U  ? Cut::below_half
                     : cut == 0x8000U ? Cut::half
                                      : Cut::above_half;
    return static_cast<uint16_t>(kept + (rounds_up(mode, (bits >> 31) != 0, (kept & 1U) != 0, part) ? 1U : 0U));
}

}  // namespace aie::detail

// The upper half of a float. A single number is rounded as a compiler rounds constants; vectors follow the mode.
struct bfloat16 {
    uint16_t bits;

    bfloat16() = default;
    constexpr bfloat16(float value) : bits(aie::detail::to_bf16_bits(value, aie::rounding_mode::conv_even)) {}
    constexpr operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

    static constexpr bfloat16 from_bits(uint16_t value) {
        bfloat16 made(0.0F);
        made.bits = value;
        return made;
    }

    bfloat16& operator+=(float other) { return *this = bfloat16(static_cast<float>(*this) + other); }
    bfloat16& operator-=(float other) { return *this = bfloat16(static_cast<float>(*this) - other); }
    bfloat16& operator*=(float other) { return *this = bfloat16(static_cast<float>(*this) * other); }
};

// Accumulators are named by these.
struct acc32 {};
struct acc40 {};
struct acc48 {};
struct acc56 {};
struct acc64 {};
struct acc72 {};
struct acc80 {};
struct accfloat {};
struct accauto {};

namespace aie::detail {

template <typename Tag>
struct AccumStorage {
    using type = int64_t;
};
template <>
struct AccumStorage<acc32> {
    using type = int32_t;
};
template <>
struct AccumStorage<accfloat> {
    using type = float;
};

template <typename T>
inline constexpr bool is_accum_tag =
    std::is_same_v<T, acc32> || std::is_same_v<T, acc40> || std::is_same_v<T, acc48> || std::is_same_v<T, acc56> ||
    std::is_same_v<T, acc64> || std::is_same_v<T, acc72> || std::is_same_v<T, acc80> || std::is_same_v<T, accfloat>;
template <typename T>
inline constexpr bool is_float = std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

// What stands for a register that nobody has set.
template <typename T>
constexpr T anything() {
    if constexpr (std::is_same_v<T, float>) return std::numeric_limits<float>::quiet_NaN();
    if constexpr (std::is_same_v<T, bfloat16>) return bfloat16::from_bits(0x7fc1);
    if constexpr (std::is_integral_v<T>) return static_cast<T>(0x5ad5a5d55ad5a5d5);
}

// What a product of the two is summed in.
template <typename A, typename B>
using DefaultAccum = std::conditional_t<is_float<A> || is_float<B>, accfloat,
                                        std::conditional_t<(sizeof(A) < 4 && sizeof(B) < 4), acc32, acc64>>;

// Integers of the core wrap around.
template <typename T>
constexpr T wrap_add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
        return static_cast<T>(a + b);
    }
}

template <typename T>
constexpr T wrap_sub(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
    } else {
        return static_cast<T>(a - b);
    }
}

template <typename S, typename A, typename B>
constexpr S product(A a, B b) {
    if constexpr (std::is_same_v<S, float>) {
        return static_cast<float>(a) * static_cast<float>(b);
    } else if constexpr (sizeof(A) < 4 && sizeof(B) < 4 && std::is_same_v<S, int32_t>) {
        return static_cast<S>(static_cast<uint32_t>(static_cast<int32_t>(a)) *
                              static_cast<uint32_t>(static_cast<int32_t>(b)));
    } else {
        return static_cast<S>(static_cast<uint64_t>(static_cast<int64_t>(a)) *
                              static_cast<uint64_t>(static_cast<int64_t>(b)));
    }
}

template <typename T>
T saturated(int64_t value, saturation_mode mode) {
    if (mode == saturation_mode::none) return static_cast<T>(value);
    // NOLINTBEGIN(bugprone-signed-char-misuse): int8 is a number
    constexpr int64_t highest = static_cast<int64_t>(std::numeric_limits<T>::max());
    int64_t lowest = static_cast<int64_t>(std::numeric_limits<T>::min());
    // NOLINTEND(bugprone-signed-char-misuse)
    if (mode == saturation_mode::symmetric && std::is_signed_v<T>) lowest = -highest;
    return static_cast<T>(value < lowest ? lowest : value > highest ? highest : value);
}

// Shift, round, saturate: how an accumulator leaves the core.
inline int64_t shifted(int64_t value, int shift, rounding_mode mode) {
    if (shift <= 0) return static_cast<int64_t>(static_cast<uint64_t>(value) << -shift);
    if (mode == rounding_mode::floor) return value >> shift;
    const uint64_t magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    const uint64_t kept = magnitude >> shift;
    const uint64_t cut = magnitude & ((uint64_t{1} << shift) - 1);
    const uint64_t half = uint64_t{1} << (shift - 1);
    const Cut part = cut == 0 ? Cut::nothing : cut < half ? Cut::below_half : cut == half ? Cut::half : Cut::above_half;
    const uint64_t rounded = kept + (rounds_up(mode, value < 0, (kept & 1) != 0, part) ? 1 : 0);
    return static_cast<int64_t>(value < 0 ? -rounded : rounded);
}

// A float as a fixed-point number; what is no number or too big for any integer becomes the nearest there is.
inline int64_t to_integer(float value, int shift, rounding_mode mode) {
    if (value != value) return 0;
    const double scaled = static_cast<double>(value) * (shift >= 0 ? static_cast<double>(uint64_t{1} << shift)
                                                                   : 1.0 / static_cast<double>(uint64_t{1} << -shift));
    constexpr double limit = 4611686018427387904.0;  // 2^62
    if (scaled >= limit) return int64_t{1} << 62;
    if (scaled <= -limit) return -(int64_t{1} << 62);
    const auto truncated = static_cast<int64_t>(scaled);
    const double cut = scaled < 0 ? static_cast<double>(truncated) - scaled : scaled - static_cast<double>(truncated);
    const Cut part = cut == 0 ? Cut::nothing : cut < 0.5 ? Cut::below_half : cut == 0.5 ? Cut::half : Cut::above_half;
    if (!rounds_up(mode, scaled < 0, (truncated & 1) != 0, part)) return truncated;
    return scaled < 0 ? truncated - 1 : truncated + 1;
}

// The value of an accumulator as an element of a vector.
template <typename T, typename S>
T leave(S value, int shift) {
    const host::Core& core = host::core;
    if constexpr (std::is_same_v<S, float>) {
        if constexpr (std::is_same_v<T, bfloat16>) {
            return bfloat16::from_bits(to_bf16_bits(value, core.rounding));
        } else if constexpr (std::is_same_v<T, float>) {
            return value;
        } else {
            return saturated<T>(to_integer(value, shift, core.rounding), core.saturation);
        }
    } else {
        return saturated<T>(shifted(value, shift, core.rounding), core.saturation);
    }
}

}  // namespace aie::detail
// NOLINTEND(readability-identifier-naming,google-explicit-constructor)
