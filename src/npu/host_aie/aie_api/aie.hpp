// aie_api for the host: our own implementation of the part of the public API that kernels of AIE2 use, so that the
// same sources run here. It computes what a core computes, with its modes, and counts what the core would do.
// What is known to differ: a core flushes denormal floats and its float accumulators round in their own way.
#pragma once

#include <aie_api/intrinsics.hpp>
#include <aie_api/mmul.hpp>

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
