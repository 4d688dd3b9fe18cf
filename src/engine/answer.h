// Answer: one choice of a request on its way through the engine: its sequence, its text, its end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/ambition.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/stop_matcher.h"
#include "text/detokenizer.h"
#include "text/grammar/matcher.h"

namespace tandem::engine {

// What all answers have in common.
struct AnswerContext {
    std::optional<text::Tokenizer> tokenizer;  // none: there is no text, and no token ends it
    int context = 0;                           // the most tokens of a sequence
    int vocab = 0;                             // rows of the model's logits
};

class Answer final : public Sequence {
  public:
    // `context` must outlive it.
    Answer(const AnswerContext& context, std::shared_ptr<const Request> asked, RequestId number, int choice_number,
           TimePoint now);

    const std::shared_ptr<const Request> request;
    const RequestId id;
    const int choice;
    device::SamplingParams sampling;
    int generated = 0;                                   // tokens of the answer; the number of the next draw too
    std::vector<std::unique_ptr<Answer>> other_choices;  // that go their own way when the prompt has been run
    std::vector<TokenId> drafted_history;                // tokens and draft, for penalties

    // Of the tokens that are still allowed.
    int most_tokens() const;
    bool wants_logits() const { return request->logprobs.has_value(); }

    // The first rows run.
    void start(TimePoint now);
    // Takes a drawn token; returns why the answer ends with it, if it does.
    std::optional<FinishReason> take(TokenId token, std::optional<TokenLogprobs> logprobs, TimePoint now);
    // With `echo`: prompt tokens up to `end` are shown, with the probabilities that were asked for.
    void echo(int end, const std::vector<TokenLogprobs>& logprobs);
    int echoed() const { return echoed_; }
    // Of an embedding: before the rows of a step, and for each of them.
    void begin_pooling();
    void pool(std::span<const float> hidden);
    // Drops the older half of a full context. The sequence must not run.
    void shift();

    // Hands out what is new.
    void deliver();
    void finish(FinishReason reason, TimePoint now, std::string error = {});

    // With a grammar, and before min_tokens: the tokens that may be drawn after those so far, and after each token of
    // the draft. They have a place at once, and are found later. Drafted tokens that the grammar refuses are dropped by
    // keep_possible_draft().
    bool limits_draws() const { return grammar_.has_value() || generated < request->min_tokens; }
    void keep_possible_draft();
    void place_allowed(int drafts);
    void find_allowed();
    std::span<const uint32_t> allowed(int after_drafts) const;
    // Why there is no way on: what is drawn is not to be taken. Empty: it has.
    const std::string& refusal() const { return refusal_; }

    Usage usage;
    Ambition ambition;  // in guessing ahead

  private:
    std::vector<TokenId> ending_tokens() const;
    bool ends(TokenId token) const;
    Status fill_allowed(std::span<uint32_t> mask, int tokens_before) const;
    std::string detokenize(TokenId token);
    std::vector<float> embedding() const;

    const AnswerContext& context_;
    std::optional<text::Detokenizer> detokenizer_;
    StopMatcher matcher_;
    std::string text_;
    std::vector<TokenId> new_tokens_;
    std::vector<TokenLogprobs> new_logprobs_;
    std::optional<text::GrammarMatcher> grammar_;
    std::vector<uint32_t> allowed_;  // bits of a draw, then of the next
    std::string refusal_;
    std::vector<double> pooled_;  // sum of hidden states
    int echoed_ = 0;
    TimePoint submitted_;
    std::optional<TimePoint> started_;
    std::optional<TimePoint> first_token_;
};

}  // namespace tandem::engine
