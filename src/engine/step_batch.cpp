#include "engine/step_batch.h"

namespace tandem::engine {

namespace {

const device::SamplingParams kGreedy;  // of outputs that nothing is drawn from

void add_rows(device::Batch& batch, const Share& share) {
    const Sequence& sequence = *share.sequence;
    device::SequenceRows rows{.first_row = static_cast<int32_t>(batch.tokens.size()),
                              .rows = share.rows,
                              .past = sequence.computed,
                              .blocks = {}};
    for (size_t g = 0; g < sequence.blocks.groups.size(); ++g) rows.blocks[g] = sequence.blocks.groups[g].blocks;
    batch.sequences.push_back(rows);

    const auto from = sequence.tokens.begin() + sequence.computed;
    batch.tokens.insert(batch.tokens.end(), from, from + (share.rows - share.drafts));
    batch.tokens.insert(batch.tokens.end(), sequence.draft.begin(), sequence.draft.begin() + share.drafts);
    for (int32_t i = 0; i < share.rows; ++i) batch.positions.push_back(sequence.computed + i);
}

void add_output(device::Batch& batch, int row, const device::SamplingRow& sampling) {
    batch.output_rows.push_back(batch.sequences.back().first_row + row);
    batch.sampling.push_back(sampling);
}

// One draw after the tokens so far, and one after each draft, counted on from the draws before.
void add_draws(device::Batch& batch, const Share& share) {
    Answer& answer = answer_of(share);
    answer.place_allowed(share.drafts);
    std::span<const TokenId> history = answer.tokens;
    if (share.drafts > 0 && answer.sampling.penalizes()) {
        answer.drafted_history = answer.tokens;
        answer.drafted_history.insert(answer.drafted_history.end(), answer.draft.begin(), answer.draft.end());
        history = answer.drafted_history;
    }
    const int first = share.rows - share.drafts - 1;
    for (int i = 0; i <= share.drafts; ++i) {
        const size_t seen = answer.sampling.penalizes() ? answer.tokens.size() + static_cast<size_t>(i) : 0;
        add_output(batch, first + i,
                   {.params = &answer.sampling,
                    .history = history.first(seen),
                    .draw = static_cast<uint64_t>(answer.generated + i),
                    .allowed = answer.allowed(i)});
    }
    // The other choices draw from the same row.
    for (const auto& other : answer.other_choices) {
        other->place_allowed(0);
        add_output(batch, first,
                   {.params = &other->sampling, .history = history, .draw = 0, .allowed = other->allowed(0)});
    }
}

void add_outputs(device::Batch& batch, const Share& share) {
    const Answer& answer = answer_of(share);
    if (answer.request->embed) {
        const int first = answer.request->embed == Pooling::mean ? 0 : share.rows - 1;
        for (int row = first; row < share.rows; ++row)
            batch.output_rows.push_back(batch.sequences.back().first_row + row);
        return;
    }
    if (answer.outputs == Sequence::Outputs::every_row) {
        const int without_draw = share.draws() ? share.rows - 1 : share.rows;
        for (int row = 0; row < without_draw; ++row) add_output(batch, row, {.params = &kGreedy, .history = {}});
    }
    if (share.draws()) add_draws(batch, share);
}

}  // namespace

void fill_batch(device::Batch& batch, std::span<const Share> shares) {
    batch.tokens.clear();
    batch.positions.clear();
    batch.sequences.clear();
    batch.output_rows.clear();
    batch.sampling.clear();
    batch.steps = 1;
    for (const Share& share : shares) {
        add_rows(batch, share);
        add_outputs(batch, share);
    }
}

}  // namespace tandem::engine
