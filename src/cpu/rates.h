// The rate at which all threads together read memory: what a product that reads each weight once is limited by.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "base/check.h"
#include "base/result.h"
#include "base/threads.h"
#include "cpu/simd/unroll.h"
#include "device/host_memory.h"
#include "device/rates.h"

namespace tandem::cpu {

// Four times the largest cache of the processors of today, so that next to nothing comes from one.
inline constexpr size_t kReadRateBytes = size_t{1} << 30;

// The sum of the words, read at some places at once.
template <int kStreams>
uint64_t sum_of(const uint64_t* words, int64_t count) {
    constexpr int64_t kLine = 8;  // words
    const int64_t stride = count / kStreams;
    uint64_t sums[kStreams] = {};
    for (int64_t i = 0; i < stride; i += kLine) {
        TANDEM_UNROLL
        for (int stream = 0; stream < kStreams; ++stream) {
            const uint64_t* const line = words + stream * stride + i;
            __builtin_prefetch(line + 16 * kLine, 0, 2);
            sums[stream] += ((line[0] + line[1]) + (line[2] + line[3])) + ((line[4] + line[5]) + (line[6] + line[7]));
        }
    }
    return std::accumulate(std::begin(sums), std::end(sums), uint64_t{0});
}

// Bytes per second: the best of a few passes in each of a few ways to read, since anything else only slows one down.
inline Result<device::Rates> measure_rates(ThreadPool& pool) {
    constexpr int64_t kWords = kReadRateBytes / sizeof(uint64_t);
    constexpr int kPasses = 3;
    constexpr int64_t kPiece = int64_t{1} << 19;  // words
    static_assert(kWords % kPiece == 0);
    const auto memory = TRY(device::HostBuffer::allocate(kReadRateBytes, "measuring the read rate",
                                                         "close other programs, or use a machine with more memory"));
    ::madvise(memory.data(), kReadRateBytes, MADV_HUGEPAGE);  // as for mapped weights, which small pages slow down
    auto* const words = reinterpret_cast<uint64_t*>(memory.data());
    pool.for_each_range(kWords, kPiece, [&](int64_t first, int64_t last, int /*thread*/) {
        std::fill(words + first, words + last, uint64_t{1});
    });
    uint64_t (*const ways[])(const uint64_t*, int64_t) = {sum_of<1>, sum_of<4>};
    double best = 0;
    for (const auto way : ways) {
        for (int pass = 0; pass < kPasses; ++pass) {
            std::atomic<uint64_t> total = 0;  // used below, so that the reads are not left out
            const auto begin = std::chrono::steady_clock::now();
            pool.for_each_range(kWords / kPiece, 1, [&](int64_t first, int64_t last, int /*thread*/) {
                for (int64_t piece = first; piece < last; ++piece) total += way(words + piece * kPiece, kPiece);
            });
            const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
            CHECK(total == kWords);
            best = std::max(best, static_cast<double>(kReadRateBytes) / time.count());
        }
    }
    return device::Rates{.read_bytes_per_s = best, .cache_bytes = static_cast<double>(device::host_cache_bytes())};
}

}  // namespace tandem::cpu
