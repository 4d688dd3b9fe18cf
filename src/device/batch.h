// Batch: everything one step needs, in plain data.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "device/sampling.h"

namespace tandem::device {

inline constexpr int kMaxCacheGroups = 4;

// One sequence's rows in a step and where its cache lies. Its rows are neighbours in the batch, in order of position.
struct SequenceRows {
    int32_t first_row = 0;
    int32_t rows = 0;
    int32_t past = 0;  // positions already in the cache; row r of the sequence is at position past + r
    // Per cache group: the cache block that holds positions [i * block_tokens, (i + 1) * block_tokens).
    std::array<std::span<const int32_t>, kMaxCacheGroups> blocks;
};

struct Batch {
    std::vector<int32_t> tokens;     // one per row
    std::vector<int32_t> positions;  // one per row, in its sequence
    std::vector<SequenceRows> sequences;
    std::vector<int32_t> output_rows;   // rows whose logits are wanted
    std::vector<SamplingRow> sampling;  // one per output row, where tokens are drawn
    // How often the step is run, each time on with the tokens that were drawn before, without the host in between. More
    // than once only if every row is the one row of its sequence and an output, and no sampling looks at its history or
    // is told what is allowed.
    int32_t steps = 1;

    bool limits_draws() const {
        return std::any_of(sampling.begin(), sampling.end(),
                           [](const SamplingRow& row) { return !row.allowed.empty(); });
    }
};

// Fills what SamplingRow::allowed of a batch points to, where that is not known yet. None: it is.
using FindAllowed = std::function<void()>;

}  // namespace tandem::device
