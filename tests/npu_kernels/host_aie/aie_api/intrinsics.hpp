// What is below the API: the registers by their size, and instructions that public kernels call by name.
#pragma once

#include <aie_api/more_arithmetic.hpp>
#include <aie_api/more_math.hpp>
#include <aie_api/more_shuffles.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
using v16int8 = aie::vector<int8, 16>;
using v32int8 = aie::vector<int8, 32>;
using v64int8 = aie::vector<int8, 64>;
using v16uint8 = aie::vector<uint8, 16>;
using v32uint8 = aie::vector<uint8, 32>;
using v64uint8 = aie::vector<uint8, 64>;
using v16int16 = aie::vector<int16, 16>;
using v32int16 = aie::vector<int16, 32>;
using v32uint16 = aie::vector<uint16, 32>;
using v8int32 = aie::vector<int32, 8>;
using v16int32 = aie::vector<int32, 16>;
using v32int32 = aie::vector<int32, 32>;
using v16bfloat16 = aie::vector<bfloat16, 16>;
using v32bfloat16 = aie::vector<bfloat16, 32>;
using v8float = aie::vector<float, 8>;
using v16float = aie::vector<float, 16>;
using v32float = aie::vector<float, 32>;
using v16accfloat = aie::accum<accfloat, 16>;
using v32accfloat = aie::accum<accfloat, 32>;
using v16acc32 = aie::accum<acc32, 16>;
using v32acc32 = aie::accum<acc32, 32>;

namespace aie {
// Registers of integers are added as the compilers' own vectors are.
template <typename T, unsigned N>
vector<T, N> operator+(const vector<T, N>& a, const vector<T, N>& b) {
    return add(a, b);
}
}  // namespace aie

inline v16bfloat16 to_v16bfloat16(const v16accfloat& acc) {
    return acc.to_vector<bfloat16>();
}
inline v32bfloat16 to_v32bfloat16(const v32accfloat& acc) {
    return acc.to_vector<bfloat16>();
}
inline v16int32 bfloat16_to_int(const v16bfloat16& v, int shift) {
    // This one rounds down whatever the mode is.
    return aie::detail::each<int32, 16>([&](unsigned i) {
        return aie::detail::saturated<int32>(aie::detail::to_integer(v[i], shift, aie::rounding_mode::floor),
                                             aie::saturation_mode::saturate);
    });
}
inline v16accfloat ups_to_v16accfloat(const v16bfloat16& v) {
    return v16accfloat(v);
}
inline v16accfloat broadcast_to_v16accfloat(float value) {
    return v16accfloat(aie::broadcast<float, 16>(value));
}
inline v32bfloat16 broadcast_to_v32bfloat16(bfloat16 value) {
    return aie::broadcast<bfloat16, 32>(value);
}
inline v32bfloat16 broadcast_one_to_v32bfloat16() {
    return aie::broadcast<bfloat16, 32>(1.0F);
}
inline v16bfloat16 extract_v16bfloat16(const v32bfloat16& v, int index) {
    return v.extract<16>(static_cast<unsigned>(index));
}

// A product of bfloat16 as the core makes it: two for each element of the sum.
inline v16accfloat mac_elem_16_2(const v32bfloat16& a, const v32bfloat16& b, const v16accfloat& acc) {
    return aie::detail::products<accfloat, 16, float, float>([&](unsigned i) {
        return acc[i] + (static_cast<float>(a[i]) * static_cast<float>(b[i]) +
                         static_cast<float>(a[i + 16]) * static_cast<float>(b[i + 16]));
    });
}
inline v16accfloat msc_elem_16_2(const v32bfloat16& a, const v32bfloat16& b, const v16accfloat& acc) {
    return aie::detail::products<accfloat, 16, float, float>([&](unsigned i) {
        return acc[i] - (static_cast<float>(a[i]) * static_cast<float>(b[i]) +
                         static_cast<float>(a[i + 16]) * static_cast<float>(b[i + 16]));
    });
}
inline v16accfloat mul_elem_16_2(const v32bfloat16& a, const v32bfloat16& b) {
    return mac_elem_16_2(a, b, aie::zeros<accfloat, 16>());
}

// The ways in which a register of 32 elements can be transposed.
inline constexpr int T16_16x2 = 44;
inline constexpr int T16_2x16 = 45;
template <typename T>
aie::vector<T, 32> shuffle(const aie::vector<T, 32>& v, int mode) {
    return mode == T16_16x2 ? aie::transpose(v, 16, 2) : aie::transpose(v, 2, 16);
}

// An address that goes in steps along a row, and after its last element to where the next row begins.
struct dims_2d_t {
    unsigned num1;  // steps in a row
    int inc1;       // in bytes
    int inc2;
    unsigned count1 = 0;
};
inline dims_2d_t dims_2d_from_steps(unsigned size1, int step1, int step2) {
    return {size1 - 1, step1, step2 - static_cast<int>(size1 - 1) * step1};
}
template <typename T>
T* add_2d_byte(T* address, dims_2d_t& dims) {
    const bool last = dims.count1 == dims.num1;
    dims.count1 = last ? 0 : dims.count1 + 1;
    return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(address) +
                                static_cast<uintptr_t>(static_cast<intptr_t>(last ? dims.inc2 : dims.inc1)));
}

inline float inv(float value) {
    return aie::inv(value);
}
inline float invsqrt(float value) {
    return aie::invsqrt(value);
}
// NOLINTEND(readability-identifier-naming)
