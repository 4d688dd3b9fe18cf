// Flow: how many objects go through each FIFO in a run, and how many rounds each core makes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

struct Flow {
    std::map<std::string, int64_t> objects;  // per FIFO
    std::map<Tile, int64_t> rounds;          // per worker
};

// What the host's transfers bring, passed on by links and cores. Refuses what does not come out even: objects that are
// sent and not taken, rounds that begin and do not end.
Result<Flow> flow_of(const Design& design, const Array& array);

}  // namespace tandem::npu
