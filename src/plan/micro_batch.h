// Micro-batches: a Batch cut into runs of rows that can follow one another through a pipeline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/batch.h"

namespace tandem::plan {

struct MicroBatch {
    device::Batch batch;
    std::vector<size_t> outputs;  // which of the whole Batch's these are
};

// Rows that a micro-batch of such a step should have, at most `most`: few enough that several overlap, enough that
// weights are worth their reading.
inline constexpr int kMicroBatches = 4;
inline constexpr int kMicroRows = 512;
int micro_rows(int64_t step_rows, int most = kMicroRows);

// Over so many ranks: a prompt's rows follow one another through them in several micro-batches, none smaller than
// `least` if there are so many; sequences that draw are as many groups as there are ranks.
int prompt_rows(int rows, int ranks, int least);
int group_rows(int sequences, int ranks);

// Whether a sequence has more than one row.
bool brings_prompt(const device::Batch& batch);

// Of at most `rows` rows each. They point to what `batch` points to.
std::vector<MicroBatch> split(const device::Batch& batch, int rows);

}  // namespace tandem::plan
