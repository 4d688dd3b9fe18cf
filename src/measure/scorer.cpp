#include "measure/scorer.h"

#include <algorithm>
#include <numeric>

namespace tandem::measure {

namespace {

constexpr int kScorerBlock = 32;
constexpr int kScorerRows = 64;  // of logits at once: a row of a large vocabulary is a megabyte

}  // namespace

Result<std::unique_ptr<Scorer>> Scorer::open(const models::Model& model, device::Backend& backend,
                                             const ScorerOptions& options) {
    if (options.context < 0) return fail("context {}: it cannot be negative", options.context);
    const int context = engine::context_or_default(model, options.context);
    const int blocks = engine::blocks_of(context, kScorerBlock);
    const auto groups = static_cast<size_t>(model.program.cache_groups());
    std::unique_ptr<engine::Runner> runner = TRY(engine::Runner::open(
        model, backend,
        {.rows = std::min(kScorerRows, context),
         .outputs = std::min(kScorerRows, context),
         .kv_dtype = options.kv_dtype.value_or(engine::default_kv_dtype(model)),
         .block_tokens = kScorerBlock,
         .groups = std::vector<engine::KvBlocks::Group>(groups, {.window = 0, .blocks = blocks})}));
    engine::warn_of_long_context(model, context);
    std::unique_ptr<Scorer> scorer(new Scorer(context, std::move(runner)));
    scorer->blocks_.resize(static_cast<size_t>(blocks));
    std::iota(scorer->blocks_.begin(), scorer->blocks_.end(), 0);
    device::SequenceRows sequence;
    for (size_t group = 0; group < groups; ++group) sequence.blocks[group] = scorer->blocks_;
    scorer->batch_.sequences = {sequence};
    return scorer;
}

Status Scorer::score(std::span<const text::TokenId> tokens,
                     const std::function<Status(int position, std::span<const float> logits)>& sink) {
    if (tokens.empty()) return fail("no tokens to run: the text is empty");
    if (std::ssize(tokens) > context_) {
        return fail("{} tokens do not fit into a context of {}: shorten the text or raise --context", tokens.size(),
                    context_);
    }
    const int total = static_cast<int>(tokens.size());
    for (int past = 0; past < total;) {
        const auto piece =
            tokens.subspan(static_cast<size_t>(past), static_cast<size_t>(std::min(kScorerRows, total - past)));
        batch_.tokens.assign(piece.begin(), piece.end());
        batch_.positions.resize(piece.size());
        std::iota(batch_.positions.begin(), batch_.positions.end(), past);
        batch_.sequences[0].rows = static_cast<int32_t>(piece.size());
        batch_.sequences[0].past = past;
        batch_.output_rows.resize(piece.size());
        std::iota(batch_.output_rows.begin(), batch_.output_rows.end(), 0);
        TRY(runner_->run(batch_, engine::Wanted::logits));
        for (size_t row = 0; row < piece.size(); ++row) TRY(sink(past + static_cast<int>(row), runner_->logits(row)));
        past += static_cast<int>(piece.size());
    }
    return Ok{};
}

}  // namespace tandem::measure
