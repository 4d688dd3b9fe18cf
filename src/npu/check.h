// check: refuses a design that the silicon would refuse, before anything is compiled or run.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

// What the verifiers of the vendor's dialect, the silicon or its firmware ask of a design: names and tiles that are
// there; what descriptors walk over; objects held and moved; kernels and their arguments; memory, descriptors, locks
// and channels per tile; a wait for every token; routes for the streams. Each relies on those before it. What only the
// compiler knows, the size of a tile's program, is left to it.
struct Rule {
    std::string_view name;  // "memory"
    Status (*check)(const Design& design, const Array& array);
};
std::span<const Rule> rules();

// All of them. The message names tile, limit and value.
Status check(const Design& design, const Array& array);

// On the array that the design names.
Status check(const Design& design);

}  // namespace tandem::npu
