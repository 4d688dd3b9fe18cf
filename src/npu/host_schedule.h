// The runtime sequence in steps: which descriptor each transfer takes, and where the host waits.
#pragma once

#include <cstddef>
#include <vector>

#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

struct HostStep {
    enum class Kind : uint8_t { issue, wait } kind = Kind::issue;
    size_t transfer = 0;  // index in the sequence
    int descriptor = 0;   // of its shim
    bool token = false;   // somebody waits for it
};

// A channel queues a few transfers, so before a further one the host waits for the oldest of that FIFO. It waits at
// last for all that goes to the host. Of a design that check() accepts.
std::vector<HostStep> host_schedule(const Design& design, const Array& array);

}  // namespace tandem::npu
