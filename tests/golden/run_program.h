// Runs a Model over a list of tokens, one sequence in a cache of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "models/model.h"

namespace tandem::golden {

// One sequence of at most `capacity` positions, as many to a step as the caller likes.
class Sequence {
  public:
    static Result<Sequence> start(device::Backend& backend, const models::Model& model, int capacity,
                                  DType kv_dtype = DType::f32) {
        Sequence sequence;
        const int blocks = (capacity + kBlockTokens - 1) / kBlockTokens;
        sequence.table_.resize(static_cast<size_t>(blocks));
        // Not in order, so that nothing passes that takes a block's number for its place.
        for (int i = 0; i < blocks; ++i) sequence.table_[static_cast<size_t>(i)] = blocks - 1 - i;
        sequence.groups_ = model.program.cache_groups();
        auto cache =
            TRY(backend.make_cache({.layers = model.program.caches,
                                    .dtype = kv_dtype,
                                    .block_tokens = kBlockTokens,
                                    .blocks = std::vector<int>(static_cast<size_t>(sequence.groups_), blocks)}));
        sequence.executable_ =
            TRY(backend.compile(model.program, model.weights, std::move(cache),
                                {.limits = {.tokens = capacity, .outputs = capacity}, .results = {"logits", "next"}}));
        return sequence;
    }

    // Feeds `tokens` and returns the logits of each, row by row.
    Result<std::vector<float>> feed(std::span<const int32_t> tokens) {
        TRY(run(tokens, 1));
        const auto logits = device::result_as<float>(*executable_, 0);
        return std::vector<float>(logits.begin(), logits.end());
    }

    // Feeds a token and then, in the same submission, those drawn; returns the `steps` tokens drawn.
    Result<std::vector<int32_t>> draw(int32_t token, int steps) {
        TRY(run(std::span(&token, 1), steps));
        const auto drawn = device::result_as<int32_t>(*executable_, 1);
        return std::vector<int32_t>(drawn.begin(), drawn.end());
    }

    int max_steps() const { return executable_->max_steps(); }

    // The most likely token after all that was fed.
    int32_t next() const { return next_; }

  private:
    Status run(std::span<const int32_t> tokens, int steps) {
        const auto count = static_cast<int32_t>(tokens.size());
        device::Batch batch;
        batch.tokens.assign(tokens.begin(), tokens.end());
        batch.positions.resize(tokens.size());
        std::iota(batch.positions.begin(), batch.positions.end(), past_);
        batch.output_rows.resize(tokens.size());
        std::iota(batch.output_rows.begin(), batch.output_rows.end(), 0);
        batch.sampling.assign(tokens.size(), {.params = &greedy_, .history = {}, .draw = 0});
        device::SequenceRows rows{.first_row = 0, .rows = count, .past = past_, .blocks = {}};
        for (int group = 0; group < groups_; ++group) rows.blocks[static_cast<size_t>(group)] = table_;
        batch.sequences.push_back(rows);
        batch.steps = steps;
        TRY(device::run(*executable_, batch));
        past_ += count + steps - 1;
        next_ = device::result_as<int32_t>(*executable_, 1).back();
        return Ok{};
    }

    static constexpr int kBlockTokens = 16;

    Sequence() = default;

    std::unique_ptr<device::Executable> executable_;
    std::vector<int32_t> table_;
    device::SamplingParams greedy_;
    int groups_ = 0;
    int32_t past_ = 0;
    int32_t next_ = 0;
};

}  // namespace tandem::golden
