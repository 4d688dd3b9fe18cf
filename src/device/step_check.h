// Checks a Batch, or a copy of cache blocks, before it runs, so that kernels may trust every id, row and block in it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "device/backend.h"
#include "device/batch.h"
#include "graph/program.h"

namespace tandem::device {

// What a compiled Program can take.
struct StepLimits {
    graph::Extents extents;
    int64_t vocab = std::numeric_limits<int64_t>::max();  // of the table that token ids index
    bool samples = false;
    int64_t drawn_from = 0;  // how many tokens there are to draw from
    bool attends = false;    // uses the cache
    int steps = 1;           // the most that one batch may ask for

    struct Group {
        bool used = false;
        int window = 0;  // 0: all positions
        int blocks = 0;
    };
    std::vector<Group> groups;
    int block_tokens = 1;
};

// CHECKs that `cache` has the layers that the Program's ops use.
StepLimits step_limits(const graph::Program& program, const graph::Extents& extents, const KvCache* cache);

Status check_step(const Batch& batch, const StepLimits& limits);

// Calls `find` if the batch limits draws, and checks that some token is left for each.
Status find_allowed(const Batch& batch, const StepLimits& limits, const FindAllowed& find);

// Checks what KvCache::copy_blocks is given.
Status check_copies(const CacheShape& shape, int group, std::span<const std::pair<int32_t, int32_t>> from_to);

}  // namespace tandem::device
