// The part of aie_api that public kernels use beyond ours (src/npu/host_aie), to compile them as they are.
#pragma once

#include_next <aie_api/aie.hpp>

#include <aie_api/intrinsics.hpp>
#include <aie_api/iterators.hpp>

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
