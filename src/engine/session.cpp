#include "engine/session.h"

#include <algorithm>
#include <numeric>

namespace tandem::engine {

namespace {

constexpr int kDefaultContext = 8192;
constexpr int kBlockTokens = 32;
constexpr int kScoreChunk = 64;  // rows of logits at once: a row of a large vocabulary is a megabyte

}  // namespace

DType default_kv_dtype(const models::Model& model) {
    const graph::WeightView* embedding = model.weights.find("token_embd.weight");
    return embedding != nullptr && embedding->dtype == DType::f32 ? DType::f32 : DType::f16;
}

Result<std::unique_ptr<Session>> Session::open(const models::Model& model, device::Backend& backend,
                                               const SessionOptions& options) {
    if (options.context < 0) return fail("context {}: it cannot be negative", options.context);
    if (options.chunk < 1) return fail("chunk {}: at least one token has to be run at once", options.chunk);
    std::unique_ptr<Session> session(new Session(model, backend));
    session->context_ = options.context > 0 ? options.context : std::min(model.context_length, kDefaultContext);
    session->chunk_ = std::min(options.chunk, session->context_);

    const int groups = model.program.cache_groups();
    if (groups > device::kMaxCacheGroups) {
        return fail("{}: {} kinds of attention window, at most {} are supported", model.name, groups,
                    device::kMaxCacheGroups);
    }
    session->kv_dtype_ = options.kv_dtype.value_or(default_kv_dtype(model));
    TRY(session->make_cache());
    session->blocks_.resize(static_cast<size_t>(session->block_count()));
    std::iota(session->blocks_.begin(), session->blocks_.end(), 0);

    device::SequenceRows sequence;
    for (int group = 0; group < groups; ++group) sequence.blocks[static_cast<size_t>(group)] = session->blocks_;
    session->batch_.sequences = {sequence};
    return session;
}

Status Session::make_cache() {
    const auto groups = static_cast<size_t>(model_.program.cache_groups());
    cache_ = TRY(backend_.make_cache({
        .layers = model_.program.caches,
        .dtype = kv_dtype_,
        .block_tokens = kBlockTokens,
        .blocks = std::vector<int>(groups, block_count()),
    }));
    return Ok{};
}

Status Session::run(device::Executable& executable) {
    Status done = device::run(executable, batch_);
    if (done) return Ok{};
    held_.clear();
    sampler_.reset();
    scorer_.reset();
    cache_.reset();
    return done;
}

int Session::block_count() const {
    return (context_ + kBlockTokens - 1) / kBlockTokens;
}

int Session::cached_tokens(std::span<const TokenId> tokens) const {
    const auto differ = std::mismatch(tokens.begin(), tokens.end(), held_.begin(), held_.end()).first;
    // The last token is run in any case: its logits are what the next one is drawn from.
    return static_cast<int>(std::min<std::ptrdiff_t>(differ - tokens.begin(), std::ssize(tokens) - 1));
}

Status Session::check_fits(std::span<const TokenId> tokens) const {
    if (tokens.empty()) return fail("no tokens to run: the prompt is empty");
    if (std::ssize(tokens) > context_) {
        return fail("{} tokens do not fit into a context of {}: shorten the prompt or raise --context", tokens.size(),
                    context_);
    }
    return Ok{};
}

Result<device::Executable*> Session::executable(std::unique_ptr<device::Executable>& slot, const char* result,
                                                graph::Extents limits) {
    if (!cache_) TRY(make_cache());
    if (!slot) {
        slot = TRY(backend_.compile(model_.program, model_.weights, cache_, {.limits = limits, .results = {result}}));
    }
    return slot.get();
}

void Session::fill_batch(std::span<const TokenId> tokens, int past) {
    batch_.tokens.assign(tokens.begin(), tokens.end());
    batch_.positions.resize(tokens.size());
    std::iota(batch_.positions.begin(), batch_.positions.end(), past);
    batch_.sequences[0].rows = static_cast<int32_t>(tokens.size());
    batch_.sequences[0].past = past;
    held_.resize(static_cast<size_t>(past));  // what lies behind is about to be overwritten
}

Result<std::optional<TokenId>> Session::advance(std::span<const TokenId> tokens, const device::SamplingRow& sampling,
                                                const std::atomic<bool>* cancelled) {
    const std::vector<TokenId> drawn = TRY(advance_by(1, tokens, sampling, cancelled));
    return drawn.empty() ? std::optional<TokenId>() : drawn.front();
}

Result<std::vector<TokenId>> Session::advance_by(int most, std::span<const TokenId> tokens,
                                                 const device::SamplingRow& sampling,
                                                 const std::atomic<bool>* cancelled) {
    TRY(check_fits(tokens));
    device::Executable* const sampler = TRY(executable(sampler_, "next", {.tokens = chunk_, .outputs = 1}));
    const int total = static_cast<int>(tokens.size());
    for (int past = cached_tokens(tokens); past < total;) {
        if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) return std::vector<TokenId>();
        const auto piece =
            tokens.subspan(static_cast<size_t>(past), static_cast<size_t>(std::min(chunk_, total - past)));
        const bool last = past + static_cast<int>(piece.size()) == total;
        fill_batch(piece, past);
        batch_.output_rows.clear();
        batch_.sampling.clear();
        batch_.steps = 1;
        if (last) {
            batch_.output_rows.push_back(static_cast<int32_t>(piece.size()) - 1);
            batch_.sampling.push_back(sampling);
            if (piece.size() == 1 && !sampling.params->penalizes()) {
                batch_.steps = std::clamp(most, 1, std::min(sampler->max_steps(), context_ - past));
            }
        }
        TRY(run(*sampler));
        held_.insert(held_.end(), piece.begin(), piece.end());
        past += static_cast<int>(piece.size());
    }
    const auto drawn = device::result_as<int32_t>(*sampler, 0);
    held_.insert(held_.end(), drawn.begin(), drawn.end() - 1);  // all but the last have been run
    return std::vector<TokenId>(drawn.begin(), drawn.end());
}

Status Session::score(std::span<const TokenId> tokens,
                      const std::function<Status(int position, std::span<const float> logits)>& sink) {
    TRY(check_fits(tokens));
    const int rows = std::min(chunk_, kScoreChunk);
    device::Executable* const scorer = TRY(executable(scorer_, "logits", {.tokens = rows, .outputs = rows}));
    const int total = static_cast<int>(tokens.size());
    for (int past = 0; past < total;) {
        const auto piece = tokens.subspan(static_cast<size_t>(past), static_cast<size_t>(std::min(rows, total - past)));
        fill_batch(piece, past);
        batch_.output_rows.resize(piece.size());
        std::iota(batch_.output_rows.begin(), batch_.output_rows.end(), 0);
        batch_.sampling.clear();
        batch_.steps = 1;
        TRY(run(*scorer));
        held_.insert(held_.end(), piece.begin(), piece.end());

        const std::span<const float> logits = device::result_as<float>(*scorer, 0);
        const size_t vocab = logits.size() / piece.size();
        for (size_t row = 0; row < piece.size(); ++row) {
            TRY(sink(past + static_cast<int>(row), logits.subspan(row * vocab, vocab)));
        }
        past += static_cast<int>(piece.size());
    }
    return Ok{};
}

}  // namespace tandem::engine
