#include "measure/stage.h"

#include <algorithm>

#include "engine/runner.h"

namespace tandem::measure {

namespace {

constexpr int kStageBlockTokens = 32;

}  // namespace

int32_t fixed_token(int position, int vocab) {
    return static_cast<int32_t>((7 + int64_t{31} * position) % vocab);
}

Result<std::unique_ptr<Stage>> Stage::open(const models::Model& model, device::Backend& backend,
                                           const StageOptions& options) {
    std::unique_ptr<Stage> stage(new Stage(model, options.kv_dtype.value_or(engine::default_kv_dtype(model))));
    TRY(stage->make_cache(backend, options));
    stage->executable_ = TRY(
        backend.compile(model.program, model.weights, stage->cache_,
                        {.limits = {.tokens = int64_t{options.sequences} * options.rows, .outputs = options.sequences},
                         .results = {options.result},
                         .progress = options.progress}));
    return stage;
}

// Layers with a window keep no more than it and the rows of a step: their blocks are used in turn.
Status Stage::make_cache(device::Backend& backend, const StageOptions& options) {
    const int groups = model_.program.cache_groups();
    TRY(engine::check_cache_groups(model_));
    std::vector<int> kept(static_cast<size_t>(groups));  // blocks of one sequence
    for (const graph::CacheLayer& layer : model_.program.caches) {
        const int all = engine::blocks_of(options.positions, kStageBlockTokens);
        kept[static_cast<size_t>(layer.group)] =
            layer.window == 0 ? all
                              : std::min(all, engine::blocks_of(layer.window + options.rows, kStageBlockTokens) + 1);
    }
    std::vector<int> blocks = kept;
    for (int& count : blocks) count *= options.sequences;
    cache_ = TRY(backend.make_cache(
        {.layers = model_.program.caches, .dtype = kv_dtype_, .block_tokens = kStageBlockTokens, .blocks = blocks}));

    for (int sequence = 0; sequence < options.sequences; ++sequence) {
        for (int count : kept) {
            std::vector<int32_t>& table = tables_.emplace_back();
            for (int i = 0; i < engine::blocks_of(options.positions, kStageBlockTokens); ++i)
                table.push_back(sequence * count + i % count);
        }
    }
    batch_.sequences.resize(static_cast<size_t>(options.sequences));
    for (size_t sequence = 0; sequence < batch_.sequences.size(); ++sequence) {
        for (size_t group = 0; group < kept.size(); ++group)
            batch_.sequences[sequence].blocks[group] = tables_[sequence * kept.size() + group];
    }
    return Ok{};
}

void Stage::fill_batch(int past, int rows, std::optional<int> output) {
    batch_.positions.clear();
    batch_.output_rows.clear();
    batch_.sampling.clear();
    for (device::SequenceRows& sequence : batch_.sequences) {
        sequence.first_row = static_cast<int32_t>(batch_.positions.size());
        sequence.rows = rows;
        sequence.past = past;
        for (int row = 0; row < rows; ++row) batch_.positions.push_back(past + row);
        if (!output) continue;
        batch_.output_rows.push_back(sequence.first_row + *output);
        batch_.sampling.push_back({.params = &greedy_, .history = {}});
    }
}

Status Stage::step(int past, int rows, std::optional<int> output) {
    fill_batch(past, rows, output);
    batch_.steps = 1;
    batch_.tokens.clear();
    for (int32_t position : batch_.positions) batch_.tokens.push_back(fixed_token(position, model_.vocab));
    return device::run(*executable_, batch_);
}

Status Stage::step_with_drawn(int past, int steps) {
    const std::span<const int32_t> drawn = result<int32_t>().last(batch_.sequences.size());  // of the last step
    batch_.tokens.assign(drawn.begin(), drawn.end());
    fill_batch(past, 1, 0);
    batch_.steps = steps;
    return device::run(*executable_, batch_);
}

}  // namespace tandem::measure
