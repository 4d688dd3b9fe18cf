// Float arithmetic for kernels: AIE2 multiplies bfloat16 and only adds floats, so that a float is taken as a sum of
// bfloat16, exactly, and a product of two floats as the sum of the products that matter.
#pragma once

#include <stdint.h>
#include <aie_api/aie.hpp>

namespace tandem::npu::kernels {

constexpr unsigned kLanes = 16;
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

inline float float_of_bits(int32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace tandem::npu::kernels
