#include "plan/micro_batch.h"

#include <algorithm>

namespace tandem::plan {

namespace {

// The rows [first, last) of a sequence's.
void add_sequence(device::Batch& part, const device::SequenceRows& sequence, int first, int last) {
    const int begin = std::max(first, sequence.first_row);
    const int end = std::min(last, sequence.first_row + sequence.rows);
    if (begin >= end) return;
    part.sequences.push_back({.first_row = begin - first,
                              .rows = end - begin,
                              .past = sequence.past + begin - sequence.first_row,
                              .blocks = sequence.blocks});
}

}  // namespace

int micro_rows(int64_t step_rows, int most) {
    constexpr int64_t kFewest = 32;
    return static_cast<int>(std::min({step_rows, int64_t{most}, std::max(kFewest, step_rows / kMicroBatches)}));
}

int prompt_rows(int rows, int ranks, int least) {
    return std::clamp((rows + 4 * ranks - 1) / (4 * ranks), std::min(least, rows), kMicroRows);
}

int group_rows(int sequences, int ranks) {
    return (sequences + ranks - 1) / ranks;
}

bool brings_prompt(const device::Batch& batch) {
    return std::any_of(batch.sequences.begin(), batch.sequences.end(),
                       [](const device::SequenceRows& rows) { return rows.rows > 1; });
}

std::vector<MicroBatch> split(const device::Batch& batch, int rows) {
    const auto all = static_cast<int>(batch.tokens.size());
    std::vector<MicroBatch> parts;
    parts.reserve(static_cast<size_t>((all + rows - 1) / rows));
    for (int first = 0; first < all; first += rows) {
        const int last = std::min(all, first + rows);
        MicroBatch& part = parts.emplace_back();
        part.batch.tokens.assign(batch.tokens.begin() + first, batch.tokens.begin() + last);
        part.batch.positions.assign(batch.positions.begin() + first, batch.positions.begin() + last);
        for (const device::SequenceRows& sequence : batch.sequences) add_sequence(part.batch, sequence, first, last);
        for (size_t i = 0; i < batch.output_rows.size(); ++i) {
            const int row = batch.output_rows[i];
            if (row < first || row >= last) continue;
            part.outputs.push_back(i);
            part.batch.output_rows.push_back(row - first);
            if (!batch.sampling.empty()) part.batch.sampling.push_back(batch.sampling[i]);
        }
    }
    return parts;
}

}  // namespace tandem::plan
