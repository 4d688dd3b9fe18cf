// The parts of check(), each for one kind of limit; later ones rely on what earlier ones found in order.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

// "compute tile (1, 2)"
std::string describe(const Array& array, Tile tile);

Status check_structure(const Design& design, const Array& array);  // names, tiles, links
Status check_accesses(const Design& design, const Array& array);   // descriptors and transfers
Status check_workers(const Design& design, const Array& array);    // statements and kernels
Status check_routes(const Design& design, const Array& array);     // streams between switch boxes

// How many objects of each FIFO the worker releases in one round, of a body that was checked.
std::map<std::string, int64_t> released_objects(const Worker& worker);

}  // namespace tandem::npu
