// How products of few rows read weights: at several places at once, each of which goes through memory in order, since
// that is what processors foresee. Side by side, the rows of several outputs would end where the next ones begin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cpu/simd/ranges.h"

namespace tandem::cpu::simd {

inline constexpr int kMostStreams = 4;

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
    constexpr int kStreams = kRows == 1 ? kMostStreams : kRows == 2 ? 2 : 1;
    const int64_t apart = (outputs.end - outputs.begin) / kStreams;
    for (int64_t o = 0; o < apart; ++o)
        body(std::integral_constant<int, kStreams>(), OutputStreams{outputs.begin + o, apart});
    for (int64_t o = outputs.begin + kStreams * apart; o < outputs.end; ++o)
        body(std::integral_constant<int, 1>(), OutputStreams{o, 0});
}

// Brings what will be read next into the second-level cache; in the first one it would push out what is there. A
// function with nothing but prefetches in it is taken for one without effect, so this one is always inlined.
template <size_t kAhead = 1024>
[[gnu::always_inline]] inline void prefetch_ahead(const void* at, size_t bytes) {
    const auto* begin = static_cast<const char*>(at) + kAhead;
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(begin + i, 0, 2);
}

// How units of work are cut into pieces of which each thread takes the next: large ones first, since a stream that
// begins is slow, and small ones at the end, so that threads end together. Each thread gets about half of what is left
// for it.
class Pieces {
  public:
    Pieces(int64_t units, int64_t bytes, int threads)
        : units_(units), threads_(std::clamp<int64_t>(bytes / kLeastBytes, 1, threads)) {
        while (halvings_ < kMostHalvings && bytes >= (kLeastBytes * threads_ << (halvings_ + 1))) ++halvings_;
    }

    int64_t count() const { return threads_ * (halvings_ + 1); }

    // The first unit of a piece; that of piece count() is the end.
    int64_t begin(int64_t piece) const {
        const int64_t round = std::min<int64_t>(piece / threads_, halvings_);
        const int64_t size = int64_t{1} << std::max<int64_t>(halvings_ - 1 - round, 0);  // in 2^halvings of a thread
        const int64_t before = (int64_t{1} << halvings_) - (int64_t{1} << (halvings_ - round));
        return units_ * (before * threads_ + (piece - round * threads_) * size) / (threads_ << halvings_);
    }

  private:
    static constexpr int kMostHalvings = 5;
    static constexpr int64_t kLeastBytes = 16 << 10;

    int64_t units_;
    int64_t threads_;
    int halvings_ = 0;
};

}  // namespace tandem::cpu::simd
