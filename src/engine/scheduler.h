// Scheduler: which sequences get how many rows of the next step, and the cache blocks for them. It knows no device and
// no clock: the same calls in the same order give the same plans.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/kv_blocks.h"

namespace tandem::engine {

using TimePoint = std::chrono::steady_clock::time_point;

struct Sequence;

struct InOrderOfService {
    bool operator()(const Sequence* a, const Sequence* b) const;
};
using SequenceQueue = std::set<Sequence*, InOrderOfService>;

// Whoever sequences belong to, while there are any. Slots are for sequences that run, with the copies they will become.
struct Account {
    SequenceQueue running;
    SequenceQueue waiting;
    int slots = 0;
    int64_t served = 0;  // rows of steps so far; who is new begins with as many as whoever has had the fewest
};

// A sequence of tokens on its way. There is no prompt phase and no decode phase: tokens that are not in the cache yet
// are run, and when all are, the next one is drawn.
struct Sequence {
    std::vector<TokenId> tokens;        // the prompt and what was drawn since
    std::vector<TokenId> draft;         // what may follow: guesses to be verified in the same step
    std::string salt;                   // only sequences with the same share blocks
    std::string owner;                  // each has a fair share of the slots and the rows
    int priority = 0;                   // larger is more important, among those of its owner
    std::optional<TimePoint> deadline;  //
    int copies = 1;                     // sequences that it becomes when its tokens have been run
    bool reuses_prefix = true;          // false: the rows of all its tokens are wanted
    enum class Outputs : uint8_t { last_row, every_row, elsewhere };
    Outputs outputs = Outputs::last_row;  // rows that an output is wanted for; elsewhere: in no step that draws

    // Kept by the scheduler.
    enum class State : uint8_t { idle, waiting, running };
    State state = State::idle;
    int computed = 0;   // tokens whose keys and values are in the cache
    int cached = 0;     // of them, found there when it was admitted first
    int64_t rank = -1;  // order of service; -1: none yet
    int preemptions = 0;
    size_t admitted_tokens = 0;  // that it had when it last began to run
    Account* account = nullptr;
    BlockTable blocks;

    int pending() const { return static_cast<int>(tokens.size()) - computed; }
};

inline bool InOrderOfService::operator()(const Sequence* a, const Sequence* b) const {
    return a->rank < b->rank;
}

// What one sequence does in a step: its next `rows` tokens, the last `drafts` of them from its draft.
struct Share {
    Sequence* sequence = nullptr;
    int rows = 0;
    int drafts = 0;
    int outputs = 0;

    // Whether a token is drawn after the last of its tokens.
    bool draws() const { return rows - drafts == sequence->pending(); }
};

struct SchedulerLimits {
    int rows = 256;      // of a step
    int outputs = 32;    // of a step
    int sequences = 32;  // that run at once; at most `rows` and `outputs`
};

class Scheduler {
  public:
    Scheduler(const SchedulerLimits& limits, KvBlocks& blocks) : limits_(limits), blocks_(blocks) {}
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // The sequence waits for its turn from now on. It must stay where it is until remove().
    void add(Sequence& sequence);
    // A sequence with the same tokens and blocks as `from`, which runs and has computed all of them. `from` must have
    // been admitted with enough `copies`.
    void add_fork(Sequence& sequence, Sequence& from);
    // Finished, or no longer wanted. What it computed stays known to others.
    void remove(Sequence& sequence);
    // Gives its blocks back and lets it wait for its turn to be computed again.
    void preempt(Sequence& sequence);

    // The next step: rows for what runs, first the sequences that draw; then, for the owner that was served least, more
    // of its prompts and, as far as there are slots and blocks, those that wait: of the owner with the fewest slots, in
    // their order. Sequences that run lose their place to more important ones of the same owner, to those of an owner
    // with fewer slots, and when there are not enough blocks. An owner that is alone has everything. Valid until the
    // next call; every share's blocks are there when copies() are made.
    std::span<const Share> plan();
    // Lets the planned sequences, each with one row, take `steps` at once, if there are blocks for that.
    bool prolong(int steps);
    // After the step: `rows` more tokens of the sequence lie in the cache.
    void advance(Sequence& sequence, int rows);

    // Those whose deadline has come.
    std::vector<Sequence*> expired(TimePoint now) const;

    bool idle() const { return accounts_.empty(); }
    int running() const { return static_cast<int>(running_.size()); }
    int waiting() const { return waiting_; }

  private:
    void give_rank(Sequence& sequence);
    Account& account_of(const std::string& owner);
    void begin_waiting(Sequence& sequence);
    void end_waiting(Sequence& sequence);
    void begin_running(Sequence& sequence);
    void end_running(Sequence& sequence);

    void plan_draws();
    void plan_prompts();
    Sequence* next_prompt();
    Sequence* next_waiting() const;
    bool make_way(Sequence& sequence);
    bool admit(Sequence& sequence);
    Share share_for(Sequence& sequence) const;
    bool place(Sequence& sequence);
    Sequence* to_lose_blocks() const;
    Sequence* to_give_way(const Sequence& next) const;
    Sequence* to_share_slots(const Sequence& next) const;

    SchedulerLimits limits_;
    KvBlocks& blocks_;
    std::map<std::string, Account> accounts_;  // of owners that have sequences here
    SequenceQueue running_;                    // of all of them
    int waiting_ = 0;
    std::set<int64_t> ranks_;  // in use: no two are alike
    int64_t arrivals_ = 0;
    int slots_ = 0;  // taken by what runs, with the copies it will become
    std::vector<Share> shares_;
    std::vector<Sequence*> order_;
    int rows_left_ = 0;
    int outputs_left_ = 0;
};

}  // namespace tandem::engine
