// Engine: any number of requests on one model and one device, step by step: schedule, run, deliver.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "engine/answer.h"
#include "engine/kv_blocks.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/scheduler.h"
#include "engine/speculate.h"
#include "models/model.h"
#include "text/grammar/compiled_grammar.h"
#include "text/grammar/token_masks.h"

namespace tandem::engine {

struct EngineOptions {
    int context = 0;       // tokens of a sequence; 0: what the model was trained for, at most 8192
    int sequences = 32;    // that run at once
    int rows = 256;        // of a step; more than `sequences`
    int cache_tokens = 0;  // that the cache holds in all; 0: for all sequences if half of the memory allows it
    int queue = 4096;      // requests that may wait
    std::optional<DType> kv_dtype = {};  // none: default_kv_dtype()
    int block_tokens = 32;
    // Tokens that several sequences draw in one submission, at least, where nothing prevents it: a device of several
    // stages is full only then.
    int least_steps = 1;
    // Guessing ahead: by what the text said before, or by a small model with the same vocabulary, which must outlive
    // the engine, on a device of its own or on the same.
    bool looks_up = false;
    const models::Model* draft_model = nullptr;
    device::Backend* draft_backend = nullptr;
    // While it is opened: is told how far that is, from 0 to 1, and ends it by an error.
    std::function<Status(double)> progress = {};
};

// What an engine does and did.
struct EngineStats {
    int running = 0;
    int waiting = 0;
    double cache_usage = 0;  // share of the cache's blocks that is held
    uint64_t steps = 0;
    uint64_t prompt_tokens = 0;
    uint64_t cached_tokens = 0;
    uint64_t generated_tokens = 0;
    uint64_t drafted_tokens = 0;
    uint64_t accepted_tokens = 0;
    uint64_t preemptions = 0;
    double device_seconds = 0;  // in steps, from the submission to the result
    double host_seconds = 0;    // of processor time of the stepping thread, for the rest of the steps
};

class Engine {
  public:
    // `model` and `backend` must outlive it. Without a tokenizer there is no text, and no token ends an answer.
    static Result<std::unique_ptr<Engine>> open(const models::Model& model, std::optional<text::Tokenizer> tokenizer,
                                                device::Backend& backend, const EngineOptions& options);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    // From any thread. What cannot be is refused at once; what is accepted ends with an Event that has a Finish.
    Result<RequestId> submit(Request request);
    // From any thread. The answers end with FinishReason::cancelled, unless they have ended before.
    void cancel(RequestId id);
    EngineStats stats() const;
    // From any thread: a grammar made ready for the model, for Request::grammar. Requests that share it are faster.
    Result<std::shared_ptr<const text::TokenMasks>> masks_for(text::CompiledGrammarPtr grammar) const;

    // One thread steps, and gets all the events. False: there was nothing to do.
    bool step();
    void run_until_idle();
    // Steps, and sleeps while there is nothing to do, until stop(), which any thread may call. What is under way stays.
    // `after_step` is called when the events of a step have been delivered.
    void run(const std::function<void()>& after_step = [] {});
    void stop();

    bool full() const;  // submit() would refuse whatever comes
    // From any thread: the model's file was lost while it was in use. Every request fails from now on.
    bool broken() const { return broken_; }
    int context() const { return shared_.context; }
    uint64_t cache_bytes() const { return cache_bytes_; }
    int cache_blocks() const;                               // of all groups together
    int most_choices() const { return limits_.sequences; }  // the most Request::n
    // What is wrong with the cache's blocks: nothing, unless there is a bug. Between steps, for tests.
    std::string audit() const;

  private:
    Engine(const models::Model& model, device::Backend& backend, const EngineOptions& options);

    Status check(const Request& request) const;
    void take_inbox();
    void end_expired(TimePoint now);
    void guess_ahead();
    Status check_weights();
    Status run_step(std::span<const Share> shares);
    Result<double> run_batch(Wanted what, const device::FindAllowed& find_allowed = {});
    Status run_drawing(int steps);
    Status run_embedding();
    void find_allowed();
    Wanted wanted() const;
    int steps_at_once();
    size_t deliver(const Share& share, size_t output, TimePoint now);
    void begin_choices(Answer& answer, size_t output, TimePoint now);
    bool take(Answer& answer, TokenId token, size_t output, TimePoint now);
    void echo(Answer& answer, const Share& share, size_t output);
    void go_on(Answer& answer);
    void end(Answer& answer, FinishReason reason, TimePoint now, const std::string& error = {});
    void fail_step(const Error& error);
    bool fail_prompts(const Error& error);
    void fail_running(const Error& error);
    void count(const Answer& answer);
    void publish_stats();

    const models::Model& model_;
    device::Backend& backend_;
    AnswerContext shared_;
    SchedulerLimits limits_;
    Runner::Options runner_options_;
    int queue_limit_;
    int least_steps_;
    std::unique_ptr<Runner> runner_;  // null after the device failed
    uint64_t cache_bytes_ = 0;
    KvBlocks blocks_;
    Scheduler scheduler_;
    std::map<std::pair<RequestId, int>, std::unique_ptr<Answer>> answers_;  // under way, by request and choice

    bool looks_up_;
    std::unique_ptr<DraftModel> draft_model_;  // null: none, or its device failed
    std::vector<DraftModel::Wish> wishes_;

    std::vector<Share> drawing_;    // of this step
    std::vector<Share> embedding_;  //
    device::Batch batch_;
    double in_device_seconds_ = 0;  // of processor time of this thread in this step: a CPU runs its steps with it
    double seconds_a_step_ = 0;     // of the last step that only drew; 0: not known
    uint64_t lost_mappings_ = 0;    // of all files, when the weights were last looked at
    std::atomic<bool> broken_ = false;

    mutable std::once_flag trie_made_;
    mutable std::shared_ptr<const text::TokenTrie> trie_;  // made for the first grammar

    mutable std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::vector<std::unique_ptr<Answer>> arrivals_;
    std::vector<RequestId> cancelled_;
    RequestId last_id_ = 0;
    int unfinished_ = 0;  // requests that arrived and have not ended
    bool stopping_ = false;
    EngineStats published_;
    EngineStats stats_;  // of the stepping thread
};

}  // namespace tandem::engine
