// How products of few rows read weights: at several places at once, each of which goes through memory in order, since
// that is what processors foresee. Side by side, the rows of several outputs would end where the next ones begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

// Outputs o, o + apart, o + 2 * apart, ...
struct OutputStreams {
    int64_t first;
    int64_t apart;

    int64_t operator[](int i) const { return first + i * apart; }
};

// Calls body(count, streams) until all outputs are done, `count` being an integral constant: sums of so many outputs
// and of kRows rows are kept in registers.
template <int kRows, class Body>
void for_each_stream(RowRange outputs, const Body& body) {
    constexpr int kStreams = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
    const int64_t apart = (outputs.end - outputs.begin) / kStreams;
    for (int64_t o = 0; o < apart; ++o)
        body(std::integral_constant<int, kStreams>(), OutputStreams{outputs.begin + o, apart});
    for (int64_t o = outputs.begin + kStreams * apart; o < outputs.end; ++o)
        body(std::integral_constant<int, 1>(), OutputStreams{o, 0});
}

// Brings what will be read next into the second-level cache; in the first one it would push out what is there. A
// function with nothing but prefetches in it is taken for one without effect, so this one is always inlined.
[[gnu::always_inline]] inline void prefetch_ahead(const void* at, size_t bytes) {
    constexpr size_t kAhead = 1024;
    const auto* begin = static_cast<const char*>(at) + kAhead;
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(begin + i, 0, 2);
}

// Rows of weights that a thread takes at once: few enough that threads end together, many enough that little is asked
// for that another one takes.
inline int64_t rows_of_piece(int64_t rows, int64_t row_bytes, int threads) {
    constexpr int64_t kPieces = 8;  // of each thread
    const int64_t least = kPieceBytes / row_bytes + 1;
    const int64_t even = rows / (threads * kPieces);
    return even > least ? even : least;
}

}  // namespace tandem::cpu::simd
