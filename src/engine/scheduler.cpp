#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::engine {

namespace {

// A priority is worth this many places in the queue. A place is lost to a later request only if that one is more
// important and not too much later, so every request gets its turn, and no clock has a say in it.
constexpr int64_t kPlacesPerPriority = 64;
constexpr int64_t kRankScale = int64_t{1} << 20;  // room between two places for those that would share one
constexpr int kMostPriority = 1000;

}  // namespace

void Scheduler::give_rank(Sequence& sequence) {
    if (sequence.rank < 0) {
        const int64_t priority = std::clamp(sequence.priority, -kMostPriority, kMostPriority);
        const int64_t place = arrivals_++ + (kMostPriority - priority) * kPlacesPerPriority;
        sequence.rank = place * kRankScale;
    }
    while (!ranks_.insert(sequence.rank).second) ++sequence.rank;
}

void Scheduler::add(Sequence& sequence) {
    CHECK(sequence.state == Sequence::State::idle && !sequence.tokens.empty());
    CHECK(sequence.copies <= limits_.sequences);
    give_rank(sequence);
    sequence.state = Sequence::State::waiting;
    waiting_.insert(&sequence);
}

void Scheduler::add_fork(Sequence& sequence, Sequence& from) {
    CHECK(from.state == Sequence::State::running && from.copies > 1 && from.pending() == 0);
    --from.copies;
    sequence.copies = 1;
    sequence.computed = from.computed;
    sequence.cached = from.cached;
    sequence.rank = from.rank;
    give_rank(sequence);
    sequence.blocks = blocks_.fork(from.blocks, from.computed);
    sequence.state = Sequence::State::running;
    running_.insert(&sequence);
}

void Scheduler::remove(Sequence& sequence) {
    if (sequence.state == Sequence::State::idle) return;
    if (sequence.state == Sequence::State::running) {
        running_.erase(&sequence);
        slots_ -= sequence.copies;
        blocks_.release(sequence.blocks, sequence.tokens, sequence.computed);
    } else {
        waiting_.erase(&sequence);
    }
    std::erase_if(shares_, [&](const Share& share) { return share.sequence == &sequence; });
    ranks_.erase(sequence.rank);
    sequence.state = Sequence::State::idle;
}

void Scheduler::preempt(Sequence& sequence) {
    CHECK(sequence.state == Sequence::State::running);
    running_.erase(&sequence);
    slots_ -= sequence.copies;
    blocks_.release(sequence.blocks, sequence.tokens, sequence.computed);
    sequence.computed = 0;
    sequence.draft.clear();
    ++sequence.preemptions;
    sequence.state = Sequence::State::waiting;
    waiting_.insert(&sequence);
    for (const Share& share : shares_) {
        if (share.sequence != &sequence) continue;
        rows_left_ += share.rows;
        outputs_left_ += share.outputs;
    }
    std::erase_if(shares_, [&](const Share& share) { return share.sequence == &sequence; });
}

Sequence* Scheduler::least_important() const {
    return running_.empty() ? nullptr : *running_.rbegin();
}

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

// Gives a running sequence its share, taking blocks from less important ones if need be.
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
        Sequence* const victim = least_important();
        preempt(*victim);
        if (victim == &sequence) return false;
    }
    rows_left_ -= share.rows;
    outputs_left_ -= share.outputs;
    shares_.push_back(share);
    return true;
}

void Scheduler::plan_running(bool drawing) {
    order_.assign(running_.begin(), running_.end());
    for (Sequence* sequence : order_) {
        if (sequence->state != Sequence::State::running) continue;  // lost its blocks to one before
        if ((sequence->pending() == 1) == drawing) place(*sequence);
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
    waiting_.erase(&sequence);
    running_.insert(&sequence);
    slots_ += sequence.copies;
    sequence.state = Sequence::State::running;
    sequence.computed = found;
    if (sequence.preemptions == 0) sequence.cached = found;
    return true;
}

// In order, and nobody passes one that does not fit: it would never fit.
void Scheduler::plan_waiting() {
    while (!waiting_.empty() && rows_left_ > 0 && outputs_left_ > 0) {
        Sequence& next = **waiting_.begin();
        while (!admit(next)) {
            Sequence* const victim = least_important();
            if (victim == nullptr || victim->rank < next.rank || victim->priority >= next.priority) return;
            preempt(*victim);
        }
        if (!place(next)) return;
    }
}

std::span<const Share> Scheduler::plan() {
    CHECK(blocks_.copies().empty(), "the copies of the last plan were not made");
    shares_.clear();
    rows_left_ = limits_.rows;
    outputs_left_ = limits_.outputs;
    plan_running(true);
    plan_running(false);
    plan_waiting();
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
    for (const Queue* queue : {&running_, &waiting_}) {
        for (Sequence* sequence : *queue) {
            if (sequence->deadline && *sequence->deadline <= now) due.push_back(sequence);
        }
    }
    return due;
}

}  // namespace tandem::engine
