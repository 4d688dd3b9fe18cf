// aie_api for the host: our own implementation of the part of the public API that kernels of AIE2 use, so that the
// same sources run here. It computes what a core computes, with its modes, and counts what the core would do.
// What is known to differ: a core flushes denormal floats and its float accumulators round in their own way.
#pragma once

#include <aie_api/math.hpp>
#include <aie_api/mmul.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
using v16int8 = aie::vector<int8, 16>;
using v32int8 = aie::vector<int8, 32>;
using v64int8 = aie::vector<int8, 64>;
using v16uint8 = aie::vector<uint8, 16>;
using v32uint8 = aie::vector<uint8, 32>;
using v64uint8 = aie::vector<uint8, 64>;
using v16int16 = aie::vector<int16, 16>;
using v32int16 = aie::vector<int16, 32>;
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

// Intrinsics below the API that public kernels call by name.
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
inline float inv(float value) {
    return aie::inv(value);
}
inline float invsqrt(float value) {
    return aie::invsqrt(value);
}
// NOLINTEND(readability-identifier-naming)

// Events mark a place in the vendor's trace; here nothing traces.
inline void event0() {}
inline void event1() {}

// What tells the vendor's compilers how to schedule means nothing to the host's.
#define chess_prepare_for_pipelining
#define chess_loop_range(...)
#define chess_loop_count(...)
#define chess_unroll_loop(...)
#define chess_flatten_loop
#define chess_no_hw_loop
#define chess_separator()
#define chess_separator_scheduler(...)
#define chess_memory_fence()
#define chess_protect_access
#define chess_storage(...)
#define __aie_dm_resource_a
#define __aie_dm_resource_b
#define __aie_dm_resource_c
#define __aie_dm_resource_d
#define restrict __restrict
