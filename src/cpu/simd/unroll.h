// TANDEM_UNROLL before a short loop of fixed length: sums that live in an array stay in registers only if the loops
// over them are unrolled completely, which the compiler does not do by itself at -O2.
#pragma once

#if defined(__clang__)
#define TANDEM_UNROLL _Pragma("unroll")
#else
#define TANDEM_UNROLL _Pragma("GCC unroll 16")
#endif
