// The rate at which all threads together read memory: what a product that reads each weight once is limited by.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/threads.h"

namespace tandem::bench {

// Bytes per second over a buffer that no cache holds; the best of a few passes, since anything else only slows one
// down.
inline double measure_read_rate(ThreadPool& pool) {
    constexpr size_t kWords = (size_t{256} << 20) / sizeof(uint64_t);
    constexpr int kPasses = 6;
    const std::vector<uint64_t> memory(kWords, 1);
    std::vector<uint64_t> sums(static_cast<size_t>(pool.size()) * 8);  // a cache line each
    double best = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        pool.for_each_range(static_cast<int64_t>(kWords), int64_t{1} << 16,
                            [&](int64_t first, int64_t last, int thread) {
                                uint64_t lanes[8] = {};
                                for (int64_t i = first; i < last; i += 8) {
                                    for (int64_t lane = 0; lane < 8; ++lane)
                                        lanes[lane] += memory[static_cast<size_t>(i + lane)];
                                }
                                for (uint64_t lane : lanes) sums[static_cast<size_t>(thread) * 8] += lane;
                            });
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        best = std::max(best, static_cast<double>(kWords * sizeof(uint64_t)) / time.count());
    }
    // The sums are used, so that the reads are not left out.
    uint64_t total = 0;
    for (uint64_t sum : sums) total += sum;
    return total == kWords * kPasses ? best : 0;
}

}  // namespace tandem::bench
