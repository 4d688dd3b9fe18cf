#include "engine/engine.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "base/file.h"
#include "base/log.h"
#include "engine/logprobs.h"
#include "engine/step_batch.h"

namespace tandem::engine {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpareOutputs = 32;  // of a step, beside a draw for every sequence: for drafts and echoed prompts

// Processor time of this thread.
double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_since(TimePoint begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What was read and written counts when it is, not when the answer ends: who looks every second sees it grow.
void count_prompt(EngineStats& stats, const Answer& answer) {
    stats.prompt_tokens += static_cast<uint64_t>(answer.usage.prompt_tokens);
    stats.cached_tokens += static_cast<uint64_t>(answer.usage.cached_tokens);
}

uint64_t less(uint64_t from, uint64_t taken) {
    return from - std::min(from, taken);
}

CachePlan cache_plan(const models::Model& model, const EngineOptions& options, int context) {
    return {.context = context,
            .sequences = options.sequences,
            .rows = options.rows,
            .positions = options.cache_tokens,
            .dtype = options.kv_dtype.value_or(default_kv_dtype(model)),
            .block_tokens = options.block_tokens};
}

Runner::Options runner_options(const models::Model& model, const device::Backend& backend, const EngineOptions& options,
                               int context) {
    const CachePlan plan = cache_plan(model, options, context);
    const device::Description device = backend.describe();
    const uint64_t free_bytes = less(device.largest_free_bytes(), model.weights.size_bytes());
    return {.rows = options.rows,
            .outputs = options.sequences + kSpareOutputs,
            .kv_dtype = plan.dtype,
            .block_tokens = options.block_tokens,
            .groups = plan_cache(model.program, plan, free_bytes),
            // a software device compiles for minutes what it may never run
            .ready = device.kind != device::Kind::software_gpu};
}

// A cache that cannot fit is told here by what asked for it: a device would only find that its memory is full.
Status check_cache_fits(const models::Model& model, const device::Backend& backend, const CachePlan& plan,
                        const std::vector<KvBlocks::Group>& groups) {
    const device::Description device = backend.describe();
    // A CPU reads weights from the file, and can do so again.
    const uint64_t weights = device.kind == device::Kind::cpu ? 0 : model.weights.size_bytes();
    const uint64_t room = less(device.free_bytes(), weights);
    const uint64_t needed = cache_shape(model.program, plan, groups).size_bytes();
    if (room == 0 || needed <= room) return Ok{};  // weights that do not fit are the device's to tell
    CachePlan smaller = plan;
    smaller.sequences = 1;
    smaller.positions = 0;
    int fits = 0;
    for (int step = plan.context; step > 0; step /= 2) {
        smaller.context = fits + step;
        if (smaller.context > plan.context) continue;
        if (cache_shape(model.program, smaller, plan_cache(model.program, smaller, 0)).size_bytes() <= room)
            fits = smaller.context;
    }
    return fail(
        "--context {}: its cache of {} MiB does not fit into the {} MiB that {} has free beside the weights: "
        "choose at most {}{}",
        plan.context, needed >> 20, room >> 20, device.name, fits,
        plan.dtype == DType::q8_0 ? "" : ", or --kv q8_0 for half of the memory");
}

}  // namespace

// ---- Opening

Engine::Engine(const models::Model& model, device::Backend& backend, const EngineOptions& options)
    : model_(model),
      backend_(backend),
      shared_{.tokenizer = {}, .context = context_or_default(model, options.context), .vocab = model.vocab},
      limits_{.rows = options.rows, .outputs = options.sequences + kSpareOutputs, .sequences = options.sequences},
      runner_options_(runner_options(model, backend, options, shared_.context)),
      queue_limit_(options.queue),
      least_steps_(options.least_steps),
      blocks_(options.block_tokens, runner_options_.groups),
      scheduler_(limits_, blocks_),
      looks_up_(options.looks_up) {}

Engine::~Engine() = default;

Result<std::unique_ptr<Engine>> Engine::open(const models::Model& model, std::optional<text::Tokenizer> tokenizer,
                                             device::Backend& backend, const EngineOptions& options) {
    if (options.context < 0) return fail("context {}: it cannot be negative", options.context);
    if (options.sequences < 1) return fail("{} sequences: at least one has to run", options.sequences);
    if (options.block_tokens < 1) return fail("cache blocks of {} tokens: at least one", options.block_tokens);
    EngineOptions fitting = options;
    // So that prompts go on while all others draw.
    fitting.rows = std::max({options.rows, options.sequences + 1, backend.describe().step_rows});
    TRY(check_cache_groups(model));
    std::unique_ptr<Engine> engine(new Engine(model, backend, fitting));
    engine->shared_.tokenizer = std::move(tokenizer);
    TRY(check_cache_fits(model, backend, cache_plan(model, fitting, engine->shared_.context),
                         engine->runner_options_.groups));
    engine->runner_ = TRY(Runner::open(model, backend, engine->runner_options_));
    engine->cache_bytes_ = engine->runner_->cache_bytes();
    TRY(engine->runner_->make_ready(Wanted::tokens, options.progress));
    TRY(engine->check_weights());
    if (options.draft_model != nullptr) {
        if (options.draft_model->vocab != model.vocab) {
            return fail("{} guesses for {} with a vocabulary of {}, not {}: choose a model of the same family",
                        options.draft_model->name, model.name, options.draft_model->vocab, model.vocab);
        }
        device::Backend& device = options.draft_backend != nullptr ? *options.draft_backend : backend;
        engine->draft_model_ = TRY(DraftModel::open(*options.draft_model, device,
                                                    {.context = engine->shared_.context,
                                                     .sequences = fitting.sequences,
                                                     .rows = fitting.rows,
                                                     .block_tokens = fitting.block_tokens}));
    }
    warn_of_long_context(model, engine->shared_.context);
    return engine;
}

// ---- From any thread

Status Engine::check(const Request& request) const {
    if (request.prompt.empty()) return fail("no tokens to run: the prompt is empty");
    if (std::ssize(request.prompt) > shared_.context) {
        return fail("{} tokens do not fit into a context of {}: shorten the prompt or raise --context",
                    request.prompt.size(), shared_.context);
    }
    for (TokenId token : request.prompt) {
        if (token < 0 || token >= model_.vocab)
            return fail("token id {} is not in the model's vocabulary of {}", token, model_.vocab);
    }
    if (request.n < 1 || request.n > limits_.sequences)
        return fail("n = {}: choose 1 to {}, which is how many sequences run at once", request.n, limits_.sequences);
    if (request.logprobs && (*request.logprobs < 0 || *request.logprobs > model_.vocab))
        return fail("log-probabilities of {} tokens: choose 0 to {}", *request.logprobs, model_.vocab);
    if (request.echo && request.logprobs && request.n > 1)
        return fail("log-probabilities of an echoed prompt are given with n = 1 only, not {}", request.n);
    if (request.embed && (request.n > 1 || request.echo || request.logprobs || request.grammar))
        return fail("an embedding has no choices, no echo, no log-probabilities and no grammar");
    for (const auto& [token, bias] : request.sampling.logit_bias) {
        if (token < 0 || token >= model_.vocab || std::isnan(bias))
            return fail("logit bias {} of token {}: the model has {} tokens", bias, token, model_.vocab);
    }
    return Ok{};
}

Result<RequestId> Engine::submit(Request request) {
    TRY(check(request));
    const auto asked = std::make_shared<const Request>(std::move(request));
    const TimePoint now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (unfinished_ >= queue_limit_)
        return fail("{} requests are under way or wait, and no more may: try again later", unfinished_);
    const RequestId id = ++last_id_;
    auto first = std::make_unique<Answer>(shared_, asked, id, 0, now);
    first->copies = asked->n;
    for (int choice = 1; choice < asked->n; ++choice)
        first->other_choices.push_back(std::make_unique<Answer>(shared_, asked, id, choice, now));
    arrivals_.push_back(std::move(first));
    ++unfinished_;
    wake_.notify_one();
    return id;
}

void Engine::cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
    wake_.notify_one();
}

Result<std::shared_ptr<const text::TokenMasks>> Engine::masks_for(text::CompiledGrammarPtr grammar) const {
    if (!shared_.tokenizer) return fail("{}: a grammar needs the model's tokenizer", model_.name);
    std::call_once(trie_made_, [&] { trie_ = std::make_shared<const text::TokenTrie>(*shared_.tokenizer); });
    return std::make_shared<const text::TokenMasks>(std::move(grammar), trie_);
}

EngineStats Engine::stats() const {
    const std::lock_guard lock(mutex_);
    return published_;
}

bool Engine::full() const {
    const std::lock_guard lock(mutex_);
    return unfinished_ >= queue_limit_;
}

int Engine::cache_blocks() const {
    int blocks = 0;
    for (const KvBlocks::Group& group : runner_options_.groups) blocks += group.blocks;
    return blocks;
}

void Engine::stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
}

// ---- The loop

void Engine::run_until_idle() {
    while (step()) {
    }
}

void Engine::run(const std::function<void()>& after_step) {
    for (;;) {
        for (bool worked = true; worked;) {
            worked = step();
            after_step();
            const std::lock_guard lock(mutex_);
            if (stopping_) break;
        }
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stopping_ || !arrivals_.empty() || !cancelled_.empty(); });
        if (!std::exchange(stopping_, false)) continue;
        return;
    }
}

bool Engine::step() {
    const TimePoint begin = Clock::now();
    const double busy_before = thread_seconds();
    in_device_seconds_ = 0;
    take_inbox();
    end_expired(begin);
    guess_ahead();
    const std::span<const Share> shares = scheduler_.plan();
    if (!shares.empty()) {
        if (const Status done = run_step(shares); !done) fail_step(done.error());
        ++stats_.steps;
        stats_.host_seconds += thread_seconds() - busy_before - in_device_seconds_;
    }
    publish_stats();
    return !scheduler_.idle();
}

void Engine::take_inbox() {
    std::vector<std::unique_ptr<Answer>> arrivals;
    std::vector<RequestId> cancelled;
    {
        const std::lock_guard lock(mutex_);
        arrivals.swap(arrivals_);
        cancelled.swap(cancelled_);
    }
    for (std::unique_ptr<Answer>& answer : arrivals) {
        scheduler_.add(*answer);
        const std::pair key(answer->id, answer->choice);
        answers_.emplace(key, std::move(answer));
    }
    const TimePoint now = Clock::now();
    for (RequestId id : cancelled) {
        while (true) {
            const auto found = answers_.lower_bound({id, 0});
            if (found == answers_.end() || found->first.first != id) break;
            end(*found->second, FinishReason::cancelled, now);
        }
    }
}

void Engine::end_expired(TimePoint now) {
    for (Sequence* sequence : scheduler_.expired(now))
        end(static_cast<Answer&>(*sequence), FinishReason::deadline, now);
}

// Fills the drafts of answers that draw in the next step.
void Engine::guess_ahead() {
    if (!looks_up_ && !draft_model_) return;
    wishes_.clear();
    for (const auto& [key, answer] : answers_) {
        answer->draft.clear();
        if (answer->state != Sequence::State::running || answer->pending() != 1 || !answer->request->speculates ||
            answer->copies > 1 || answer->outputs != Sequence::Outputs::last_row)
            continue;
        const int length = std::min(answer->ambition.length(), answer->most_tokens() - 1);
        if (length <= 0) continue;
        if (draft_model_) {
            wishes_.push_back({.answer = answer.get(), .length = length});
        } else {
            answer->draft = look_up(answer->tokens, length);
            answer->keep_possible_draft();
        }
    }
    if (wishes_.empty()) return;
    if (const Status guessed = draft_model_->guess(wishes_); !guessed) {
        log::warn("no more guesses by the small model: {}", guessed.error().message);
        draft_model_.reset();
    }
    for (const DraftModel::Wish& wish : wishes_) wish.answer->keep_possible_draft();
}

// ---- A step

// What was computed since with weights that are not there any more is worth nothing.
Status Engine::check_weights() {
    if (const uint64_t lost = lost_mappings(); lost != lost_mappings_) {
        lost_mappings_ = lost;
        const auto& weights = model_.weights.all();
        broken_ = broken_ || std::any_of(weights.begin(), weights.end(),
                                         [](const auto& weight) { return is_lost(weight.second.data); });
    }
    if (!broken_) return Ok{};
    return fail("{}: its file got shorter or could not be read while it was in use; load it again when it is whole",
                model_.name);
}

Status Engine::run_step(std::span<const Share> shares) {
    TRY(check_weights());
    const TimePoint now = Clock::now();
    drawing_.clear();
    embedding_.clear();
    for (const Share& share : shares) {
        answer_of(share).start(now);
        (answer_of(share).request->embed ? embedding_ : drawing_).push_back(share);
    }
    const int steps = steps_at_once();
    if (!runner_) runner_ = TRY(Runner::open(model_, backend_, runner_options_));
    TRY(runner_->copy(blocks_.copies()));
    blocks_.copied();
    if (!drawing_.empty()) TRY(run_drawing(steps));
    if (!embedding_.empty()) TRY(run_embedding());
    return Ok{};
}

// Finds what grammars allow the draws to be, while the device works on what comes before them.
void Engine::find_allowed() {
    const double busy_before = thread_seconds();
    for (const Share& share : drawing_) {
        if (!share.draws()) continue;
        answer_of(share).find_allowed();
        for (const auto& other : answer_of(share).other_choices) other->find_allowed();
    }
    in_device_seconds_ -= thread_seconds() - busy_before;  // run_batch() takes it for the device's
}

Wanted Engine::wanted() const {
    const bool logits = std::any_of(drawing_.begin(), drawing_.end(),
                                    [](const Share& share) { return answer_of(share).wants_logits(); });
    return logits ? Wanted::tokens_and_logits : Wanted::tokens;
}

// How many tokens the device may draw for each sequence before the host looks: several if all of them draw, nothing of
// what they draw matters to the host, and nobody waits.
int Engine::steps_at_once() {
    if (!runner_ || !embedding_.empty() || scheduler_.waiting() > 0 || seconds_a_step_ <= 0) return 1;
    const int least = drawing_.size() > 1 ? least_steps_ : 1;
    int steps = std::min(runner_->max_steps(), std::max(least, tokens_at_once(seconds_a_step_)));
    for (const Share& share : drawing_) {
        const Answer& answer = answer_of(share);
        if (share.rows != 1 || !share.draws() || answer.copies > 1 || answer.wants_logits() || answer.limits_draws() ||
            answer.sampling.penalizes())
            return 1;
        steps = std::min(steps, answer.most_tokens());
    }
    if (steps < 2 || !scheduler_.prolong(steps)) return 1;
    const std::lock_guard lock(mutex_);
    return arrivals_.empty() ? steps : 1;
}

// Returns the seconds it took.
Result<double> Engine::run_batch(Wanted what, const device::FindAllowed& find_allowed) {
    const TimePoint begin = Clock::now();
    const double busy_before = thread_seconds();
    TRY(runner_->run(batch_, what, find_allowed));
    TRY(check_weights());
    in_device_seconds_ += thread_seconds() - busy_before;
    const double seconds = seconds_since(begin);
    stats_.device_seconds += seconds;
    return seconds;
}

Status Engine::run_drawing(int steps) {
    fill_batch(batch_, drawing_);
    batch_.steps = steps;
    const double seconds = TRY(run_batch(wanted(), [this] { find_allowed(); }));
    if (batch_.output_rows.size() == batch_.tokens.size()) seconds_a_step_ = seconds / steps;

    const TimePoint now = Clock::now();
    size_t output = 0;
    for (const Share& share : drawing_) output += deliver(share, output, now);
    return Ok{};
}

// Takes what a share's outputs brought; returns how many they are.
size_t Engine::deliver(const Share& share, size_t output, TimePoint now) {
    Answer& answer = answer_of(share);
    const bool draws = share.draws();
    const auto outputs = static_cast<size_t>(share.outputs);
    const auto drafts = static_cast<size_t>(share.drafts);
    if (answer.request->echo) echo(answer, share, output);
    scheduler_.advance(answer, share.rows - share.drafts);
    if (!draws) {
        answer.deliver();
        return outputs;
    }
    if (!answer.refusal().empty()) {
        end(answer, FinishReason::error, now, std::string(answer.refusal()));
        return outputs;
    }
    const size_t first = output + outputs - 1 - drafts - answer.other_choices.size();
    if (answer.choice == 0 && answer.generated == 0) count_prompt(stats_, answer);
    begin_choices(answer, first + 1, now);

    const auto steps = static_cast<size_t>(batch_.steps);
    const size_t stride = batch_.steps > 1 ? batch_.output_rows.size() : 1;  // steps lie one after the other
    const std::span<const int32_t> drawn = runner_->drawn();
    answer.usage.drafted_tokens += share.drafts;
    const int accepted_before = answer.usage.accepted_tokens;
    for (size_t i = 0; i <= std::max(drafts, steps - 1); ++i) {
        const TokenId token = drawn[first + i * stride];
        if (!take(answer, token, first + i, now)) return outputs;
        const bool goes_on = steps > 1 ? i + 1 < steps : i < drafts && answer.draft[i] == token;
        if (!goes_on) break;
        if (drafts > 0) ++answer.usage.accepted_tokens;
        scheduler_.advance(answer, 1);  // it was run in the same step
    }
    answer.ambition.learn(share.drafts, answer.usage.accepted_tokens - accepted_before);
    go_on(answer);
    return outputs;
}

// The other choices of a request part here: all have the same blocks and each its own first token.
void Engine::begin_choices(Answer& answer, size_t output, TimePoint now) {
    std::vector<std::unique_ptr<Answer>> others = std::move(answer.other_choices);
    answer.other_choices.clear();
    for (std::unique_ptr<Answer>& other : others) {
        Answer& choice = *other;
        scheduler_.add_fork(choice, answer);
        choice.usage.cached_tokens = answer.cached;
        answers_.emplace(std::pair(choice.id, choice.choice), std::move(other));
        if (choice.request->echo) choice.echo(static_cast<int>(choice.request->prompt.size()), {});
        if (take(choice, runner_->drawn()[output], output, now)) go_on(choice);
        ++output;
    }
}

// False: the answer has ended with it, and is gone.
bool Engine::take(Answer& answer, TokenId token, size_t output, TimePoint now) {
    std::optional<TokenLogprobs> logprobs;
    if (answer.wants_logits()) logprobs = log_probabilities(runner_->logits(output), token, *answer.request->logprobs);
    const int generated_before = answer.generated;
    const std::optional<FinishReason> reason = answer.take(token, std::move(logprobs), now);
    stats_.generated_tokens += static_cast<uint64_t>(answer.generated - generated_before);
    if (reason == FinishReason::error) {
        end(answer, *reason, now, "no token that the grammar allows can be drawn: look at the logit bias");
    } else if (reason) {
        end(answer, *reason, now);
    }
    return !reason;
}

// Shows the prompt: at once, or as fast as its log-probabilities come.
void Engine::echo(Answer& answer, const Share& share, size_t output) {
    const auto& prompt = answer.request->prompt;
    const int length = static_cast<int>(prompt.size());
    if (!answer.wants_logits()) return answer.echo(length, {});
    std::vector<TokenLogprobs> logprobs;
    if (answer.echoed() == 0) {
        const float none = std::numeric_limits<float>::quiet_NaN();  // nothing foretells the first token
        logprobs.push_back({.chosen = {.token = prompt[0], .logprob = none}, .top = {}});
    }
    const int end = std::min(length, answer.computed + share.rows + 1);
    for (int token = std::max(1, answer.echoed()); token < end; ++token) {
        const size_t row = output + static_cast<size_t>(token - 1 - answer.computed);
        logprobs.push_back(
            log_probabilities(runner_->logits(row), prompt[static_cast<size_t>(token)], *answer.request->logprobs));
    }
    answer.echo(end, logprobs);
}

// Hands out what is new; an answer whose context is full goes on in half of it.
void Engine::go_on(Answer& answer) {
    answer.deliver();
    if (answer.most_tokens() > 0) return;
    if (draft_model_) draft_model_->forget(answer);
    scheduler_.preempt(answer);
    answer.shift();
}

Status Engine::run_embedding() {
    fill_batch(batch_, embedding_);
    TRY(run_batch(Wanted::hidden));
    const TimePoint now = Clock::now();
    size_t output = 0;
    for (const Share& share : embedding_) {
        Answer& answer = answer_of(share);
        const size_t outputs = answer.request->embed == Pooling::mean ? static_cast<size_t>(share.rows) : 1;
        answer.begin_pooling();
        for (size_t i = 0; i < outputs; ++i) answer.pool(runner_->hidden(output++));
        scheduler_.advance(answer, share.rows);
        if (answer.pending() > 0) continue;
        count_prompt(stats_, answer);
        end(answer, FinishReason::stop, now);
    }
    return Ok{};
}

// ---- Endings

void Engine::end(Answer& answer, FinishReason reason, TimePoint now, const std::string& error) {
    if (draft_model_) draft_model_->forget(answer);
    scheduler_.remove(answer);
    const auto found = answers_.find({answer.id, answer.choice});
    const std::unique_ptr<Answer> ended = std::move(found->second);
    answers_.erase(found);
    count(*ended);
    ended->finish(reason, now, error);
    for (const auto& other : ended->other_choices) other->finish(reason, now, error);
    const auto next = answers_.lower_bound({ended->id, 0});
    if (next != answers_.end() && next->first.first == ended->id) return;  // other choices go on
    const std::lock_guard lock(mutex_);
    --unfinished_;
}

void Engine::fail_step(const Error& error) {
    if (!broken_ && runner_ && runner_->sound() && fail_prompts(error)) return;
    fail_running(error);
}

// Only steps with prompts need an NPU: those that draw go on. False: there was no prompt.
bool Engine::fail_prompts(const Error& error) {
    const TimePoint now = Clock::now();
    std::vector<Answer*> prompts;
    for (const auto& [key, answer] : answers_) {
        if (answer->state == Sequence::State::running && answer->pending() > 1) prompts.push_back(answer.get());
    }
    for (Answer* answer : prompts) end(*answer, FinishReason::error, now, error.message);
    return !prompts.empty();
}

// Nothing of a device that failed is trusted any more: it may be lost, and making the cache again brings it back.
void Engine::fail_running(const Error& error) {
    const TimePoint now = Clock::now();
    std::vector<Answer*> running;
    for (const auto& [key, answer] : answers_) {
        if (answer->state == Sequence::State::running) running.push_back(answer.get());
    }
    for (Answer* answer : running) end(*answer, FinishReason::error, now, error.message);
    blocks_.forget();
    runner_.reset();
}

void Engine::count(const Answer& answer) {
    stats_.drafted_tokens += static_cast<uint64_t>(answer.usage.drafted_tokens);
    stats_.accepted_tokens += static_cast<uint64_t>(answer.usage.accepted_tokens);
    stats_.preemptions += static_cast<uint64_t>(answer.preemptions);
}

void Engine::publish_stats() {
    stats_.running = scheduler_.running();
    stats_.waiting = scheduler_.waiting();
    stats_.cache_usage = blocks_.usage();
    const std::lock_guard lock(mutex_);
    published_ = stats_;
}

std::string Engine::audit() const {
    std::vector<const BlockTable*> tables;
    for (const auto& [key, answer] : answers_) {
        if (answer->state == Sequence::State::running) tables.push_back(&answer->blocks);
    }
    return blocks_.audit(tables);
}

}  // namespace tandem::engine
