// Hints for loops: the array's compiler overlaps the rounds of a loop only when it knows that there are enough of them.
#pragma once

#if defined(__AIE_ARCH__)
#define TANDEM_PRAGMA(text) _Pragma(#text)
// Of a loop that has at least so many rounds, which are not written out one after another.
#define LOOP_AT_LEAST(rounds) \
    TANDEM_PRAGMA(clang loop min_iteration_count(rounds)) TANDEM_PRAGMA(clang loop unroll(disable))
#else
#define LOOP_AT_LEAST(rounds)
#endif
