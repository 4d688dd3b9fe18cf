// How work is cut for threads.
#pragma once

#include <cstdint>

namespace tandem::cpu::simd {

struct RowRange {
    int64_t begin;
    int64_t end;
};

// Elements that are worth a thread of their own in ops that do little with each.
inline constexpr int64_t kPieceElements = 16 << 10;

}  // namespace tandem::cpu::simd
