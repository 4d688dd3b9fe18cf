// The runtime sequence in steps: which descriptor each transfer takes, and where the host waits.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

// What is written as MLIR, and what the emulator runs.
struct HostStep {
    enum class Kind : uint8_t { issue, wait } kind = Kind::issue;
    size_t transfer = 0;  // index in the sequence
    int descriptor = 0;   // of its shim
    bool token = false;   // its end is told by a token, and a wait of its channel takes one
};

// Whatever goes to the host gives a token, so each of these transfers has a wait of its own; a transfer to the array
// only where somebody waits for it. A channel queues a few transfers: before a further one the host waits for the
// oldest of that FIFO. At last it waits for all that goes to the host. Of a design that check() accepts.
std::vector<HostStep> host_schedule(const Design& design, const Array& array);

// Whether these steps, of a schedule or of any other, take each token that comes, leave nothing that goes to the host
// unwaited for, and ask no more of a channel than it queues.
Status check_tokens(const Design& design, const Array& array, const std::vector<HostStep>& steps);

// Whether the host gets what the transfer moves.
bool goes_to_host(const Design& design, const Transfer& transfer);

}  // namespace tandem::npu
