#include "engine/answer.h"

#include <algorithm>
#include <cmath>

namespace tandem::engine {

namespace {

double seconds_between(TimePoint begin, TimePoint end) {
    return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Answer::Answer(const AnswerContext& context, std::shared_ptr<const Request> asked, RequestId number, int choice_number,
               TimePoint now)
    : request(std::move(asked)),
      id(number),
      choice(choice_number),
      sampling(request->sampling),
      context_(context),
      matcher_(request->stop),
      submitted_(now) {
    tokens = request->prompt;
    salt = request->salt;
    owner = request->owner;
    priority = request->priority;
    deadline = request->deadline;
    sampling.seed += static_cast<uint64_t>(choice);
    usage.prompt_tokens = static_cast<int>(tokens.size());
    if (context.tokenizer) {
        const text::DetokenizerOptions options{// A grammar counts every byte of the answer, a leading space too.
                                               .continues_text =
                                                   (request->continues_text || request->grammar) && !request->echo};
        detokenizer_.emplace(*context.tokenizer, options);
    }
    if (request->grammar) grammar_.emplace(request->grammar);
    if (request->embed) {
        outputs = Outputs::elsewhere;
        reuses_prefix = request->embed == Pooling::last;
    } else if (request->echo && request->logprobs) {
        outputs = Outputs::every_row;
        reuses_prefix = false;
    }
}

int Answer::most_tokens() const {
    const int room = context_.context - static_cast<int>(tokens.size()) + 1;  // the last needs no place in the cache
    return request->max_tokens > 0 ? std::min(room, request->max_tokens - generated) : room;
}

void Answer::start(TimePoint now) {
    if (started_) return;
    started_ = now;
    usage.cached_tokens = cached;
    for (const auto& other : other_choices) other->start(now);  // they have the same prompt
}

std::vector<TokenId> Answer::ending_tokens() const {
    std::vector<TokenId> all = request->stop_tokens;
    if (request->ignore_end || !context_.tokenizer) return all;
    const std::vector<TokenId>& own = context_.tokenizer->stop_tokens();
    all.insert(all.end(), own.begin(), own.end());
    return all;
}

bool Answer::ends(TokenId token) const {
    const auto in = [token](const std::vector<TokenId>& set) {
        return std::find(set.begin(), set.end(), token) != set.end();
    };
    return in(request->stop_tokens) ||
           (!request->ignore_end && context_.tokenizer && in(context_.tokenizer->stop_tokens()));
}

std::string Answer::detokenize(TokenId token) {
    if (!detokenizer_) return {};
    std::string text = detokenizer_->push(token);
    const std::vector<TokenId>& shown = request->shown;
    if (std::find(shown.begin(), shown.end(), token) != shown.end()) text += context_.tokenizer->piece(token);
    return text;
}

std::optional<FinishReason> Answer::take(TokenId token, std::optional<TokenLogprobs> logprobs, TimePoint now) {
    if (!first_token_) first_token_ = now;
    if (request->prompt_only) return FinishReason::length;
    if (grammar_ && !grammar_->accept(token)) return FinishReason::error;  // a bias left nothing that is allowed
    if (ends(token) || (grammar_ && grammar_->finished())) return FinishReason::stop;
    tokens.push_back(token);
    ++generated;
    new_tokens_.push_back(token);
    if (logprobs) new_logprobs_.push_back(std::move(*logprobs));
    text_ += matcher_.push(detokenize(token));
    if (matcher_.stopped()) return FinishReason::stop;
    if (request->max_tokens > 0 && generated >= request->max_tokens) return FinishReason::length;
    if (most_tokens() <= 0 && !request->shifts_context) return FinishReason::length;
    return {};
}

void Answer::echo(int end, const std::vector<TokenLogprobs>& logprobs) {
    for (; echoed_ < end; ++echoed_) {
        const TokenId token = request->prompt[static_cast<size_t>(echoed_)];
        new_tokens_.push_back(token);
        text_ += detokenize(token);
    }
    new_logprobs_.insert(new_logprobs_.end(), logprobs.begin(), logprobs.end());
}

void Answer::shift() {
    const auto keep = static_cast<std::ptrdiff_t>(std::clamp(request->keep, 0, context_.context / 2));
    const std::ptrdiff_t dropped = (std::ssize(tokens) - keep) / 2;
    tokens.erase(tokens.begin() + keep, tokens.begin() + keep + dropped);
    tokens.shrink_to_fit();
}

void Answer::deliver() {
    if (text_.empty() && new_tokens_.empty()) return;
    if (request->on_event) {
        request->on_event({.id = id,
                           .choice = choice,
                           .text = text_,
                           .tokens = new_tokens_,
                           .logprobs = new_logprobs_,
                           .finish = nullptr});
    }
    text_.clear();
    new_tokens_.clear();
    new_logprobs_.clear();
}

void Answer::keep_possible_draft() {
    if (!grammar_) return;
    size_t possible = 0;
    while (possible < draft.size() && grammar_->accept(draft[possible]) && !grammar_->finished()) ++possible;
    grammar_->rollback(possible + (grammar_->finished() ? 1 : 0));  // nothing can be drawn after the end
    draft.resize(possible);
}

void Answer::place_allowed(int drafts) {
    if (limits_draws()) allowed_.resize(device::mask_words(context_.vocab) * static_cast<size_t>(drafts + 1));
}

// Of a draw after so many tokens of the answer.
Status Answer::fill_allowed(std::span<uint32_t> mask, int tokens_before) const {
    if (grammar_) {
        TRY(grammar_->fill_mask(mask));
    } else {
        std::fill(mask.begin(), mask.end(), ~0U);
    }
    if (tokens_before >= request->min_tokens) return Ok{};
    for (const TokenId token : ending_tokens()) {
        const auto bit = static_cast<uint32_t>(token);
        if (bit / 32 < mask.size()) mask[bit / 32] &= ~(1U << (bit % 32));
    }
    if (std::any_of(mask.begin(), mask.end(), [](uint32_t word) { return word != 0; })) return Ok{};
    return fail("the grammar ends the answer after {} tokens, and min_tokens is {}", tokens_before,
                request->min_tokens);
}

void Answer::find_allowed() {
    if (!limits_draws()) return;
    const size_t words = device::mask_words(context_.vocab);
    const size_t drafts = allowed_.size() / words - 1;
    size_t accepted = 0;
    Status filled = Ok{};
    for (size_t i = 0; filled && i <= drafts; ++i) {
        filled = fill_allowed(std::span(allowed_).subspan(i * words, words), generated + static_cast<int>(i));
        if (filled && grammar_ && i < drafts && grammar_->accept(draft[i])) ++accepted;
    }
    if (grammar_) grammar_->rollback(accepted);
    if (filled) return;
    refusal_ = filled.error().message;
    std::fill(allowed_.begin(), allowed_.end(), ~0U);  // a device must have something to draw
}

std::span<const uint32_t> Answer::allowed(int after_drafts) const {
    if (!limits_draws()) return {};
    const size_t words = device::mask_words(context_.vocab);
    return std::span(allowed_).subspan(static_cast<size_t>(after_drafts) * words, words);
}

void Answer::begin_pooling() {
    if (computed == 0 || request->embed == Pooling::last) pooled_.clear();
}

void Answer::pool(std::span<const float> hidden) {
    pooled_.resize(hidden.size());
    for (size_t i = 0; i < hidden.size(); ++i) pooled_[i] += static_cast<double>(hidden[i]);
}

// Of length 1: what the sum was divided by makes no difference.
std::vector<float> Answer::embedding() const {
    double square = 0;
    for (double value : pooled_) square += value * value;
    const double scale = square > 0 ? 1 / std::sqrt(square) : 0;
    std::vector<float> result;
    result.reserve(pooled_.size());
    for (double value : pooled_) result.push_back(static_cast<float>(value * scale));
    return result;
}

void Answer::finish(FinishReason reason, TimePoint now, std::string error) {
    if (detokenizer_) text_ += matcher_.push(detokenizer_->finish());
    text_ += matcher_.finish();
    usage.generated_tokens = generated;
    Finish end{.reason = reason,
               .error = std::move(error),
               .stop = matcher_.met(),
               .usage = usage,
               .timing = {},
               .embedding = {}};
    if (request->embed && reason == FinishReason::stop) end.embedding = embedding();
    const TimePoint started = started_.value_or(now);
    const TimePoint first = first_token_.value_or(now);
    end.timing = {.queue = seconds_between(submitted_, started),
                  .prefill = seconds_between(started, first),
                  .decode = seconds_between(first, now),
                  .first_token = seconds_between(submitted_, first)};
    if (!request->on_event) return;
    request->on_event(
        {.id = id, .choice = choice, .text = text_, .tokens = new_tokens_, .logprobs = new_logprobs_, .finish = &end});
}

}  // namespace tandem::engine
