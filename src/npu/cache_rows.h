// Rows of a key-value cache in host memory: read as the array takes them, int8 with scales, and written from floats.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "device/backend.h"

namespace tandem::npu {

inline constexpr int kRun = 32;  // elements with one scale

// The keys or the values of one layer, for one sequence: `blocks` says where its positions lie.
struct CacheRows {
    const device::KvCache& cache;
    int layer = 0;
    bool values = false;
    std::span<const int32_t> blocks;
};

// `positions` of one kv head from `first` on: int8 [positions][padded_dim], scales [positions][padded_dim / kRun]. What
// a head has less than padded_dim is zero. A cache of q8_0 is copied as it is.
struct GatherTarget {
    int8_t* elements = nullptr;
    float* scales = nullptr;
    int padded_dim = 0;
};
void gather(const CacheRows& rows, int kv_head, int first, int positions, const GatherTarget& target);

// [positions][kv_heads * head_dim], for the cache from position `first` on.
struct ScatterSource {
    int first = 0;
    int positions = 0;
    const float* data = nullptr;
};
void scatter(const CacheRows& rows, const ScatterSource& source, ThreadPool& threads);

}  // namespace tandem::npu
