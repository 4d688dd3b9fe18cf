// Speculation: guesses of the tokens that follow, which the model then verifies in one step.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/answer.h"
#include "engine/runner.h"

namespace tandem::engine {

// Guesses by prompt lookup: what followed the last time that the sequence had the tokens it ends with. At most `most`.
std::vector<TokenId> look_up(std::span<const TokenId> tokens, int most);

// Guesses by a small model with the same vocabulary, which draws with the same random numbers as the large one.
class DraftModel {
  public:
    struct Options {
        int context = 0;
        int sequences = 1;
        int rows = 256;
        int block_tokens = 32;
    };

    // `model` and `backend` must outlive it.
    static Result<std::unique_ptr<DraftModel>> open(const models::Model& model, device::Backend& backend,
                                                    const Options& options);

    struct Wish {
        Answer* answer = nullptr;
        int length = 0;
    };
    // Fills the answers' drafts. The answers run, and their last token is the only one they have not computed.
    Status guess(std::span<const Wish> wishes);
    // The answer has ended or waits again.
    void forget(const Answer& answer);

  private:
    // An answer as far as the small model has run it.
    struct Follower {
        const Answer* answer = nullptr;
        std::vector<TokenId> run;  // tokens in the cache, guesses among them
        BlockTable blocks;
        std::vector<TokenId> guesses;
        int wanted = 0;
    };

    DraftModel(std::unique_ptr<Runner> runner, const Options& options, const std::vector<KvBlocks::Group>& groups)
        : options_(options), runner_(std::move(runner)), blocks_(options.block_tokens, groups) {}

    Follower& follow(const Answer& answer);
    bool catch_up(Follower& follower, int& rows_left);
    void add_row(const Follower& follower, int past, std::span<const TokenId> tokens, bool draws);
    Status draw();

    Options options_;
    std::unique_ptr<Runner> runner_;
    KvBlocks blocks_;
    std::vector<std::unique_ptr<Follower>> followers_;
    std::vector<Follower*> guessing_;  // in this round
    device::Batch batch_;
};

}  // namespace tandem::engine
