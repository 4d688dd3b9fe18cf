// check: refuses a design that the silicon would refuse, before anything is compiled or run.
#pragma once

#include "base/result.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

// Tiles and names that are there; memory, descriptors, locks and channels per tile; what descriptors can walk over;
// objects held and moved; kernels and their arguments; routes for the streams. The message names tile, limit and value.
// What only the compiler knows, the size of a tile's program, is left to it.
Status check(const Design& design, const Array& array);

// On the array that the design names.
Status check(const Design& design);

}  // namespace tandem::npu
