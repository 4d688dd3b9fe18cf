// Where the buffers of a core lie, as the vendor's compiler places them when it is asked to do it one after another,
// and what a core issues in a cycle of a call, which depends on that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "npu/array.h"
#include "npu/design.h"
#include "npu/kernels.h"

namespace tandem::npu {

// The first byte after the stack, then the larger buffers before the smaller, else in the order of the design: FIFOs
// first. aiecc does so with --alloc-scheme=basic-sequential, which every build asks for.
struct PlacedBuffer {
    std::string name;  // of the FIFO or the local buffer
    int object = 0;    // of the FIFO
    int64_t begin = 0;
    int64_t end = 0;
};
std::vector<PlacedBuffer> memory_map(const Design& design, const Array& array, Tile core);

// Whether objects of the two ever lie in one bank, so that a core which loads from both in one cycle has to wait.
bool share_a_bank(const std::vector<PlacedBuffer>& map, const Array& array, const std::string& a, const std::string& b);

// Of a design whose names are resolved.
IssueRates issue_rates(const Design& design, const Worker& worker, const Array& array, const Call& call,
                       const Kernel& kernel);

// Whether the first two buffers of every matrix product lie in different banks: what a core can read side by side.
bool operands_apart(const Design& design, const Array& array);

}  // namespace tandem::npu
