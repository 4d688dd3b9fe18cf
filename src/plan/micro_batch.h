// Micro-batches: a Batch cut into runs of rows that can follow one another through a pipeline.
#pragma once

#include <cstddef>
#include <vector>

#include "device/batch.h"

namespace tandem::plan {

struct MicroBatch {
    device::Batch batch;
    std::vector<size_t> outputs;  // which of the whole Batch's these are
};

// Of at most `rows` rows each. They point to what `batch` points to, and call its find_allowed once in all.
std::vector<MicroBatch> split(const device::Batch& batch, int rows);

}  // namespace tandem::plan
