// Accesses as descriptors hold them: without needless dimensions, and for the host with the repetition apart.
#pragma once

#include "npu/design.h"

namespace tandem::npu {

// Without dimensions of one step; none where one element follows the other all the way.
Access compact(const Access& access);

// A descriptor of a shim walks along up to three dimensions and does so `repeat.size` times, `repeat.stride` apart.
struct HostAccess {
    AccessDim repeat{1, 0};
    Access inner;  // outermost first; one dimension of stride 1 where it is contiguous
};
HostAccess host_access(const Access& access);

}  // namespace tandem::npu
