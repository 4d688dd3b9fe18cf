#include "engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace tandem::engine {

namespace {

// A priority is worth this many places in the queue. A place is lost to a later request only if that one is more
// important and not too much later, so every request gets its turn, and no clock has a say in it.
constexpr int64_t kPlacesPerPriority = 64;
constexpr int64_t kRankScale = int64_t{1} << 20;  // room between two places for those that would share one
constexpr int kMostPriority = 1000;
constexpr size_t kTokensOfATurn = 16;  // that a sequence draws after it gave way, before it does so again

}  // namespace

void Scheduler::give_rank(Sequence& sequence) {
    if (sequence.rank < 0) {
        const int64_t priority = std::clamp(sequence.priority, -kMostPriority, kMostPriority);
        const int64_t place = arrivals_++ + (kMostPriority - priority) * kPlacesPerPriority;
        sequence.rank = place * kRankScale;
    }
    while (!ranks_.insert(sequence.rank).second) ++sequence.rank;
}

Account& Scheduler::account_of(const std::string& owner) {
    if (const auto known = accounts_.find(owner); known != accounts_.end()) return known->second;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [name, account] : accounts_) least = std::min(least, account.served);
    Account& account = accounts_[owner];
    account.served = accounts_.size() > 1 ? least : 0;
    return account;
}

void Scheduler::begin_waiting(Sequence& sequence) {
    sequence.state = Sequence::State::waiting;
    sequence.account->waiting.insert(&sequence);
    ++waiting_;
}

void Scheduler::end_waiting(Sequence& sequence) {
    sequence.account->waiting.erase(&sequence);
    --waiting_;
}

void Scheduler::begin_running(Sequence& sequence) {
    sequence.state = Sequence::State::running;
    sequence.admitted_tokens = sequence.tokens.size();
    sequence.account->running.insert(&sequence);
    running_.insert(&sequence);
}

void Scheduler::end_running(Sequence& sequence) {
    running_.erase(&sequence);
    sequence.account->running.erase(&sequence);
    slots_ -= sequence.copies;
    sequence.account->slots -= sequence.copies;
    blocks_.release(sequence.blocks, sequence.tokens, sequence.computed);
}

void Scheduler::add(Sequence& sequence) {
    CHECK(sequence.state == Sequence::State::idle && !sequence.tokens.empty());
    CHECK(sequence.copies <= limits_.sequences);
    give_rank(sequence);
    sequence.account = &account_of(sequence.owner);
    begin_waiting(sequence);
}

void Scheduler::add_fork(Sequence& sequence, Sequence& from) {
    CHECK(from.state == Sequence::State::running && from.copies > 1 && from.pending() == 0);
    --from.copies;
    sequence.copies = 1;
    sequence.computed = from.computed;
    sequence.cached = from.cached;
    sequence.rank = from.rank;
    give_rank(sequence);
    sequence.owner = from.owner;
    sequence.account = from.account;
    sequence.blocks = blocks_.fork(from.blocks, from.computed);
    begin_running(sequence);
}

void Scheduler::remove(Sequence& sequence) {
    if (sequence.state == Sequence::State::idle) return;
    sequence.state == Sequence::State::running ? end_running(sequence) : end_waiting(sequence);
    std::erase_if(shares_, [&](const Share& share) { return share.sequence == &sequence; });
    ranks_.erase(sequence.rank);
    sequence.state = Sequence::State::idle;
    const Account& account = *std::exchange(sequence.account, nullptr);
    if (account.running.empty() && account.waiting.empty()) accounts_.erase(sequence.owner);
}

void Scheduler::preempt(Sequence& sequence) {
    CHECK(sequence.state == Sequence::State::running);
    end_running(sequence);
    sequence.computed = 0;
    sequence.draft.clear();
    ++sequence.preemptions;
    begin_waiting(sequence);
    for (const Share& share : shares_) {
        if (share.sequence != &sequence) continue;
        rows_left_ += share.rows;
        outputs_left_ += share.outputs;
        sequence.account->served -= share.rows;
    }
    std::erase_if(shares_, [&](const Share& share) { return share.sequence == &sequence; });
}

// ---- Who gives way. The sequence that came first of all that run is never among them, unless it is alone: so there is
// always one that comes to its end.

// When there are not enough blocks: the last of the owner with the most slots.
Sequence* Scheduler::to_lose_blocks() const {
    Sequence* last = nullptr;
    for (const auto& [name, account] : accounts_) {
        if (account.running.empty()) continue;
        Sequence* const candidate = *account.running.rbegin();
        const bool is_later = last == nullptr || account.slots > last->account->slots ||
                              (account.slots == last->account->slots && candidate->rank > last->rank);
        if (is_later) last = candidate;
    }
    return last;
}

// For `next` to run: a less important one of its owner, or one of an owner that has more; null: it has to wait.
Sequence* Scheduler::to_give_way(const Sequence& next) const {
    if (const SequenceQueue& own = next.account->running; !own.empty()) {
        Sequence* const last = *own.rbegin();
        if (last->rank > next.rank && last->priority < next.priority) return last;
    }
    return to_share_slots(next);
}

// An owner gives slots only as long as it still has as many as the other then has, so none is given back and forth; and
// a sequence that gave its own lately keeps it for a while, so each gets on however many newcomers there are.
Sequence* Scheduler::to_share_slots(const Sequence& next) const {
    const int fair = next.account->slots + next.copies;
    const Account* richest = nullptr;
    int to_spare = limits_.sequences - slots_;
    for (const auto& [name, account] : accounts_) {
        to_spare += std::max(0, account.slots - fair);
        if (richest == nullptr || account.slots > richest->slots) richest = &account;
    }
    if (richest == nullptr || to_spare < next.copies) return nullptr;
    for (auto last = richest->running.rbegin(); last != richest->running.rend(); ++last) {
        Sequence& candidate = **last;
        const bool is_first = &candidate == *richest->running.begin();
        const bool is_settled =
            candidate.preemptions == 0 || candidate.tokens.size() >= candidate.admitted_tokens + kTokensOfATurn;
        if (!is_first && is_settled && richest->slots - candidate.copies >= fair) return &candidate;
    }
    return nullptr;
}

// ---- A step

// What the step has room for.
Share Scheduler::share_for(Sequence& sequence) const {
    Share share{.sequence = &sequence};
    const int pending = sequence.pending();
    share.rows = std::min(pending, rows_left_);
    if (sequence.outputs == Sequence::Outputs::every_row) {
        share.rows = std::min(share.rows, outputs_left_);
        share.outputs = share.rows;
        return share;
    }
    if (share.rows < pending || sequence.outputs == Sequence::Outputs::elsewhere) return share;
    if (sequence.copies > outputs_left_) {
        --share.rows;  // everything but the row to draw from
        return share;
    }
    share.outputs = sequence.copies;
    const int room = std::min(rows_left_ - share.rows, outputs_left_ - share.outputs);
    share.drafts = std::min(static_cast<int>(sequence.draft.size()), room);
    share.rows += share.drafts;
    share.outputs += share.drafts;
    return share;
}

// Gives a running sequence its share, taking blocks from others if need be.
bool Scheduler::place(Sequence& sequence) {
    Share share = share_for(sequence);
    if (share.rows == 0) return true;
    while (!blocks_.grow(sequence.blocks, sequence.computed, sequence.computed + share.rows)) {
        if (share.drafts > 0) {  // guesses are worth no one's blocks
            share.rows -= share.drafts;
            share.outputs -= share.drafts;
            share.drafts = 0;
            continue;
        }
        Sequence* const victim = to_lose_blocks();
        preempt(*victim);
        if (victim == &sequence) return false;
    }
    rows_left_ -= share.rows;
    outputs_left_ -= share.outputs;
    sequence.account->served += share.rows;
    shares_.push_back(share);
    return true;
}

void Scheduler::plan_draws() {
    order_.assign(running_.begin(), running_.end());
    for (Sequence* sequence : order_) {
        if (sequence->state != Sequence::State::running) continue;  // lost its blocks to one before
        if (sequence->pending() == 1) place(*sequence);
    }
}

bool Scheduler::admit(Sequence& sequence) {
    if (slots_ + sequence.copies > limits_.sequences) return false;
    const int length = static_cast<int>(sequence.tokens.size());
    int found = 0;
    if (sequence.reuses_prefix) {
        found = blocks_.take_prefix(sequence.blocks, sequence.salt, sequence.tokens);
    } else {
        blocks_.take_nothing(sequence.blocks, sequence.salt);
    }
    // Room for the whole of it, and for every running sequence to go on a while.
    const bool alone = running_.empty();
    if (!alone && !blocks_.has_room(sequence.blocks, length + 1, limits_.rows, slots_)) {
        blocks_.release(sequence.blocks, sequence.tokens, found);
        return false;
    }
    end_waiting(sequence);
    begin_running(sequence);
    slots_ += sequence.copies;
    sequence.account->slots += sequence.copies;
    sequence.computed = found;
    if (sequence.preemptions == 0) sequence.cached = found;
    return true;
}

bool Scheduler::make_way(Sequence& sequence) {
    while (!admit(sequence)) {
        Sequence* const victim = to_give_way(sequence);
        if (victim == nullptr) return false;
        preempt(*victim);
    }
    return true;
}

// Of the prompts in order_ that still run, the first one of the owner that was served least; null: there is none.
Sequence* Scheduler::next_prompt() {
    std::erase_if(order_, [](const Sequence* sequence) { return sequence->state != Sequence::State::running; });
    const auto next = std::min_element(order_.begin(), order_.end(), [](const Sequence* a, const Sequence* b) {
        return a->account->served < b->account->served;
    });
    return next == order_.end() ? nullptr : *next;
}

Sequence* Scheduler::next_waiting() const {
    Sequence* next = nullptr;
    const auto key = [](const Sequence& sequence) {
        return std::tuple(sequence.account->slots, sequence.account->served, sequence.rank);
    };
    for (const auto& [name, account] : accounts_) {
        if (account.waiting.empty()) continue;
        Sequence* const first = *account.waiting.begin();
        if (next == nullptr || key(*first) < key(*next)) next = first;
    }
    return next;
}

// Rows go to the owner that was served least. Nobody who waits passes one that does not fit: it would never fit.
void Scheduler::plan_prompts() {
    order_.clear();
    std::copy_if(running_.begin(), running_.end(), std::back_inserter(order_),
                 [](const Sequence* sequence) { return sequence->pending() > 1; });
    bool admits = true;
    while (rows_left_ > 0) {
        Sequence* const prompt = next_prompt();
        Sequence* const newcomer = admits && outputs_left_ > 0 ? next_waiting() : nullptr;
        if (prompt == nullptr && newcomer == nullptr) return;
        const bool is_newcomers_turn =
            newcomer != nullptr && (prompt == nullptr || (newcomer->account != prompt->account &&
                                                          newcomer->account->served <= prompt->account->served));
        if (is_newcomers_turn) {
            admits = make_way(*newcomer) && place(*newcomer);
        } else {
            std::erase(order_, prompt);
            place(*prompt);
        }
    }
}

std::span<const Share> Scheduler::plan() {
    CHECK(blocks_.copies().empty(), "the copies of the last plan were not made");
    shares_.clear();
    rows_left_ = limits_.rows;
    outputs_left_ = limits_.outputs;
    plan_draws();
    plan_prompts();
    CHECK(running_.empty() || !shares_.empty(), "what runs can always go on");
    return shares_;
}

bool Scheduler::prolong(int steps) {
    for (const Share& share : shares_) {
        CHECK(share.rows == 1);
        Sequence& sequence = *share.sequence;
        if (!blocks_.grow(sequence.blocks, sequence.computed, sequence.computed + steps)) return false;
    }
    return true;
}

void Scheduler::advance(Sequence& sequence, int rows) {
    CHECK(sequence.state == Sequence::State::running && rows <= sequence.pending());
    sequence.computed += rows;
    blocks_.settle(sequence.blocks, sequence.tokens, sequence.computed);
}

std::vector<Sequence*> Scheduler::expired(TimePoint now) const {
    std::vector<Sequence*> due;
    for (const auto& [name, account] : accounts_) {
        for (const SequenceQueue* queue : {&account.running, &account.waiting}) {
            std::copy_if(queue->begin(), queue->end(), std::back_inserter(due),
                         [now](const Sequence* sequence) { return sequence->deadline && *sequence->deadline <= now; });
        }
    }
    return due;
}

}  // namespace tandem::engine
