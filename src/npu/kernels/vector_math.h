// Float arithmetic for kernels: AIE2 multiplies bfloat16 and only adds floats, so that a float is taken as a sum of
// bfloat16, exactly, and a product of two floats as the sum of the products that matter.
#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has
#include <aie_api/aie.hpp>

namespace tandem::npu::kernels {

constexpr unsigned kLanes = 16;
constexpr int32_t kStep = 16;  // the same for an index
using Floats = aie::vector<float, kLanes>;
using Ints = aie::vector<int32, kLanes>;
using Halves = aie::vector<bfloat16, kLanes>;
using Sums = aie::accum<accfloat, kLanes>;

// What the kernels need of a core, which starts with neither: numbers that leave an accumulator go to the nearest, and
// stop at the limits of their type.
inline void set_modes() {
    aie::set_rounding(aie::rounding_mode::conv_even);
    aie::set_saturation(aie::saturation_mode::saturate);
}

// high + middle + low is the float: three times eight bits.
struct Split {
    Halves high, middle, low;
};

inline Split split(const Floats& x) {
    Split parts;
    Sums rest(x);
    parts.high = rest.to_vector<bfloat16>();
    rest = aie::sub(rest, parts.high);
    parts.middle = rest.to_vector<bfloat16>();
    rest = aie::sub(rest, parts.middle);
    parts.low = rest.to_vector<bfloat16>();
    return parts;
}

// Relative error below 2^-21: the products left out are 2^-25 of the result each, the sums round.
inline Sums multiply_into(const Sums& start, const Split& a, const Split& b) {
    Sums sum = aie::mac(start, a.low, b.high);
    sum = aie::mac(sum, a.high, b.low);
    sum = aie::mac(sum, a.middle, b.middle);
    sum = aie::mac(sum, a.middle, b.high);
    sum = aie::mac(sum, a.high, b.middle);
    return aie::mac(sum, a.high, b.high);
}

inline Floats multiply(const Split& a, const Split& b) {
    return multiply_into(aie::zeros<accfloat, kLanes>(), a, b).to_vector<float>();
}
inline Floats multiply(const Floats& a, const Floats& b) {
    return multiply(split(a), split(b));
}
inline Floats multiply(const Floats& a, float b) {
    return multiply(a, aie::broadcast<float, kLanes>(b));
}

// The first two parts: enough where what follows has fewer bits anyway. Relative error of a product below 2^-14.
struct Pair {
    Halves high, low;
};

inline Pair halve(const Floats& x) {
    Pair parts;
    const Sums whole(x);
    parts.high = whole.to_vector<bfloat16>();
    parts.low = aie::sub(whole, parts.high).to_vector<bfloat16>();
    return parts;
}

inline Sums multiply_into(const Sums& start, const Pair& a, const Pair& b) {
    return aie::mac(aie::mac(aie::mac(start, a.low, b.high), a.high, b.low), a.high, b.high);
}

inline Floats multiply(const Pair& a, const Pair& b) {
    return multiply_into(aie::zeros<accfloat, kLanes>(), a, b).to_vector<float>();
}

inline Floats add(const Floats& a, const Floats& b) {
    return aie::add(Sums(a), Sums(b)).to_vector<float>();
}
inline Floats subtract(const Floats& a, const Floats& b) {
    return aie::sub(Sums(a), Sums(b)).to_vector<float>();
}

// |x| as bits: floats that are not negative are in the order of their bits, which the core compares in one step.
inline Ints magnitude_bits(const Floats& x) {
    return aie::bit_and(x.cast_to<int32>(), aie::broadcast<int32, kLanes>(0x7fffffff));
}

// A power of two is made in the exponent of a float; what is out of its range stops at the ends of it.
inline Floats times_power(const Floats& x, const Ints& power) {
    return aie::add(x.cast_to<int32>(), aie::upshift(power, 23)).cast_to<float>();
}
inline Floats within_exponent(const Floats& x) {
    return aie::min(aie::max(x, -125.0F), 126.0F);
}

// 2^x = 2^n 2^f with n the nearest integer and f in [-1/2, 1/2], 2^f by the first terms of its series: relative error
// below 2^-14.
inline Floats exp2(const Floats& x) {
    constexpr float kSeries[] = {0.00133335581F, 0.00961812911F, 0.0555041087F, 0.240226507F, 0.693147181F, 1.0F};
    const Floats limited = within_exponent(x);
    const Ints whole = aie::to_fixed<int32>(limited);
    const Pair rest = halve(subtract(limited, aie::to_float<float>(whole)));
    Floats sum = aie::broadcast<float, kLanes>(kSeries[0]);
    for (int i = 1; i < 6; ++i) {
        sum = multiply_into(Sums(aie::broadcast<float, kLanes>(kSeries[i])), halve(sum), rest).to_vector<float>();
    }
    return times_power(sum, whole);
}

// The same with products of bfloat16, as a bfloat16, for what is quantized to eight bits afterwards: relative error
// below 2^-7.
inline Halves exp2_short(const Floats& x) {
    const Floats limited = within_exponent(x);
    const Ints whole = aie::to_fixed<int32>(limited);
    const Halves rest = Sums(subtract(limited, aie::to_float<float>(whole))).to_vector<bfloat16>();
    const Sums third(aie::broadcast<float, kLanes>(0.242321212F));
    const Sums second(aie::broadcast<float, kLanes>(0.693249524F));
    const Sums first(aie::broadcast<float, kLanes>(1.0F));
    const Halves upper = aie::mac(third, rest, bfloat16(0.0554199219F)).to_vector<bfloat16>();
    const Halves middle = aie::mac(second, rest, upper).to_vector<bfloat16>();
    return Sums(times_power(aie::mac(first, rest, middle).to_vector<float>(), whole)).to_vector<bfloat16>();
}

// Two numbers, eight lanes each: two rows of a block that has eight columns.
inline Floats two_rows(float upper, float lower) {
    return aie::concat(aie::broadcast<float, 8>(upper), aie::broadcast<float, 8>(lower));
}

inline float float_of_bits(int32_t bits) {
    float value = 0;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace tandem::npu::kernels
