#include "engine/speculate.h"

#include <algorithm>

namespace tandem::engine {

namespace {

constexpr std::ptrdiff_t kLongestMatch = 3;   // tokens to be found again, tried first
constexpr std::ptrdiff_t kShortestMatch = 2;  // fewer say too little
constexpr std::ptrdiff_t kFarthest = 8192;    // tokens to look back

}  // namespace

std::vector<TokenId> look_up(std::span<const TokenId> tokens, int most) {
    const auto text = tokens.last(static_cast<size_t>(std::min(std::ssize(tokens), kFarthest)));
    for (std::ptrdiff_t length = kLongestMatch; length >= kShortestMatch && most > 0; --length) {
        if (std::ssize(text) <= length) continue;
        const auto pattern = text.last(static_cast<size_t>(length));
        for (std::ptrdiff_t at = std::ssize(text) - length - 1; at >= 0; --at) {
            const auto here = text.subspan(static_cast<size_t>(at), static_cast<size_t>(length));
            if (here.back() != pattern.back() || !std::equal(here.begin(), here.end(), pattern.begin())) continue;
            const auto next = text.subspan(static_cast<size_t>(at + length));
            const size_t count = std::min(next.size(), static_cast<size_t>(most));
            return {next.begin(), next.begin() + static_cast<std::ptrdiff_t>(count)};
        }
    }
    return {};
}

Result<std::unique_ptr<DraftModel>> DraftModel::open(const models::Model& model, device::Backend& backend,
                                                     const Options& options) {
    const DType dtype = default_kv_dtype(model);
    const std::vector<KvBlocks::Group> groups = plan_cache(model.program,
                                                           {.context = options.context,
                                                            .sequences = options.sequences,
                                                            .rows = options.rows,
                                                            .dtype = dtype,
                                                            .block_tokens = options.block_tokens},
                                                           backend.describe().largest_free_bytes());
    std::unique_ptr<Runner> runner = TRY(Runner::open(model, backend,
                                                      {.rows = options.rows,
                                                       .outputs = options.sequences,
                                                       .kv_dtype = dtype,
                                                       .block_tokens = options.block_tokens,
                                                       .groups = groups}));
    TRY(runner->make_ready(Wanted::tokens));
    return std::unique_ptr<DraftModel>(new DraftModel(std::move(runner), options, groups));
}

DraftModel::Follower& DraftModel::follow(const Answer& answer) {
    for (const auto& follower : followers_) {
        if (follower->answer == &answer) return *follower;
    }
    Follower& added = *followers_.emplace_back(std::make_unique<Follower>());
    added.answer = &answer;
    const int found = blocks_.take_prefix(added.blocks, answer.salt, answer.tokens);
    added.run.assign(answer.tokens.begin(), answer.tokens.begin() + found);
    return added;
}

void DraftModel::forget(const Answer& answer) {
    const auto found = std::find_if(followers_.begin(), followers_.end(),
                                    [&](const auto& follower) { return follower->answer == &answer; });
    if (found == followers_.end()) return;
    Follower& follower = **found;
    const auto same =
        std::mismatch(follower.run.begin(), follower.run.end(), answer.tokens.begin(), answer.tokens.end());
    blocks_.release(follower.blocks, answer.tokens, static_cast<int>(same.first - follower.run.begin()));
    followers_.erase(found);
}

void DraftModel::add_row(const Follower& follower, int past, std::span<const TokenId> tokens, bool draws) {
    const Answer& answer = *follower.answer;
    device::SequenceRows rows{.first_row = static_cast<int32_t>(batch_.tokens.size()),
                              .rows = static_cast<int32_t>(tokens.size()),
                              .past = past,
                              .blocks = {}};
    for (size_t g = 0; g < follower.blocks.groups.size(); ++g) rows.blocks[g] = follower.blocks.groups[g].blocks;
    batch_.sequences.push_back(rows);
    batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
    for (int i = 0; i < rows.rows; ++i) batch_.positions.push_back(past + i);
    if (!draws) return;
    batch_.output_rows.push_back(static_cast<int32_t>(batch_.tokens.size()) - 1);
    batch_.sampling.push_back({.params = &answer.sampling,
                               .history = answer.tokens,
                               .draw = static_cast<uint64_t>(answer.generated) + follower.guesses.size()});
}

// Adds the rows of what the follower has not run of its answer; false if it cannot guess this time.
bool DraftModel::catch_up(Follower& follower, int& rows_left) {
    const std::vector<TokenId>& tokens = follower.answer->tokens;
    const auto same = std::mismatch(follower.run.begin(), follower.run.end(), tokens.begin(), tokens.end() - 1);
    follower.run.erase(same.first, follower.run.end());  // guesses that were wrong
    const int past = static_cast<int>(follower.run.size());
    blocks_.settle(follower.blocks, tokens, past);
    const int missing = static_cast<int>(tokens.size()) - past;
    const int rows = std::min(missing, rows_left);
    const bool guesses = rows == missing;
    if (rows == 0 || !blocks_.grow(follower.blocks, past, past + rows + (guesses ? follower.wanted - 1 : 0)))
        return false;
    rows_left -= rows;
    add_row(follower, past, std::span(tokens).subspan(static_cast<size_t>(past), static_cast<size_t>(rows)), guesses);
    follower.run.insert(follower.run.end(), tokens.begin() + past, tokens.begin() + past + rows);
    return guesses;
}

Status DraftModel::draw() {
    TRY(runner_->copy(blocks_.copies()));
    blocks_.copied();
    if (batch_.tokens.empty()) return Ok{};
    TRY(runner_->run(batch_, Wanted::tokens));
    const std::span<const int32_t> drawn = runner_->drawn();
    for (size_t i = 0; i < guessing_.size(); ++i) guessing_[i]->guesses.push_back(drawn[i]);
    return Ok{};
}

Status DraftModel::guess(std::span<const Wish> wishes) {
    batch_ = {};
    guessing_.clear();
    int rows_left = options_.rows;
    for (const Wish& wish : wishes.first(std::min(wishes.size(), static_cast<size_t>(options_.sequences)))) {
        Follower& follower = follow(*wish.answer);
        follower.guesses.clear();
        follower.wanted = wish.length;
        if (catch_up(follower, rows_left)) guessing_.push_back(&follower);
    }
    TRY(draw());
    const std::vector<Follower*> all = guessing_;
    for (;;) {
        std::erase_if(guessing_, [](const Follower* f) { return std::ssize(f->guesses) >= f->wanted; });
        if (guessing_.empty()) break;
        batch_ = {};
        for (Follower* follower : guessing_) {
            const TokenId last = follower->guesses.back();
            add_row(*follower, static_cast<int>(follower->run.size()), {&last, 1}, true);
            follower->run.push_back(last);
        }
        TRY(draw());
    }
    for (const Wish& wish : wishes) wish.answer->draft.clear();
    for (const Follower* follower : all) {
        const auto wish = std::find_if(wishes.begin(), wishes.end(),
                                       [&](const Wish& other) { return other.answer == follower->answer; });
        wish->answer->draft = follower->guesses;
    }
    return Ok{};
}

}  // namespace tandem::engine
