#include "text/grammar/machine.h"

#include <algorithm>

#include "text/grammar/limits.h"

namespace tandem::text::grammar {

bool Machine::accepts(const Item& item) const {
    const State& state = automaton_->state(item.state);
    if (state.loop != State::kNoLoop) return item.count >= automaton_->loop(state).min;
    return state.accepts;
}

bool Machine::is_done(const Item& item) const {
    const State& state = automaton_->state(item.state);
    if (state.loop != State::kNoLoop) return item.count >= automaton_->loop(state).max;
    return state.is_dead_end();
}

void Machine::add(std::vector<Item>& items, const Item& item) {
    if (std::find(items.begin(), items.end(), item) != items.end()) return;
    if (items.size() >= kMaxItems) {
        overflow_ = true;
        return;
    }
    items.push_back(item);
}

void Machine::call(std::vector<Item>& items, RuleId rule, const Item& caller) {
    const auto end = new_calls_.begin() + static_cast<ptrdiff_t>(used_);
    const auto known = std::find_if(new_calls_.begin(), end, [&](const NewCall& made) { return made.rule == rule; });
    if (known != end) {
        if (std::find(known->callers.begin(), known->callers.end(), caller) == known->callers.end())
            known->callers.push_back(caller);
        return;
    }
    const CallId id = first_new_ + static_cast<CallId>(used_);
    if (used_ == new_calls_.size()) new_calls_.emplace_back();
    new_calls_[used_].rule = rule;
    new_calls_[used_].callers.assign(1, caller);
    ++used_;
    add(items, {.state = automaton_->start(rule), .count = 0, .call = id});
}

Machine::Outcome Machine::close(CallGraph& graph, std::vector<Item>& items) {
    Outcome outcome;
    first_new_ = static_cast<CallId>(graph.calls());
    used_ = 0;
    overflow_ = false;
    for (size_t i = 0; i < items.size() && !overflow_; ++i) {
        const Item item = items[i];
        // A call made here has matched nothing yet; that it may is known to its callers.
        if (item.call < first_new_ && accepts(item)) {
            if (item.call == 0)
                outcome.root_ends = true;
            else
                for (const Item& caller : graph.callers(item.call)) add(items, caller);
        }
        const State& state = automaton_->state(item.state);
        if (state.loop != State::kNoLoop) {
            const Loop& loop = automaton_->loop(state);
            if (item.count < loop.max) {
                // An endless loop past its minimum has no more to count.
                const uint32_t count = loop.max == kUnbounded ? std::min(item.count + 1, loop.min) : item.count + 1;
                call(items, loop.body, {.state = item.state, .count = count, .call = item.call});
            }
        }
        for (const CallEdge& edge : automaton_->calls(state)) {
            call(items, edge.rule, {.state = edge.target, .count = 0, .call = item.call});
        }
    }
    commit(graph);
    outcome.overflow = overflow_;
    return outcome;
}

void Machine::collect_callers(const CallGraph& graph, size_t new_call, std::vector<bool>& seen,
                              std::vector<Item>& out) const {
    std::vector<size_t> work = {new_call};
    seen.assign(used_, false);
    seen[new_call] = true;
    while (!work.empty()) {
        const size_t at = work.back();
        work.pop_back();
        for (const Item& caller : new_calls_[at].callers) {
            if (!is_done(caller) || caller.call == 0) {
                out.push_back(caller);
            } else if (caller.call < first_new_) {
                const auto callers = graph.callers(caller.call);
                out.insert(out.end(), callers.begin(), callers.end());
            } else if (!seen[caller.call - first_new_]) {
                seen[caller.call - first_new_] = true;
                work.push_back(caller.call - first_new_);
            }
        }
    }
}

void Machine::commit(CallGraph& graph) {
    std::vector<bool> seen;
    for (size_t i = 0; i < used_; ++i) {
        flat_.clear();
        collect_callers(graph, i, seen, flat_);
        std::sort(flat_.begin(), flat_.end());
        flat_.erase(std::unique(flat_.begin(), flat_.end()), flat_.end());
        if (flat_.size() > kMaxItems) overflow_ = true;
        graph.add_call(flat_);
    }
}

Machine::Outcome Machine::start(CallGraph& graph, std::vector<Item>& items) {
    items.assign(1, {.state = automaton_->start(), .count = 0, .call = 0});
    return close(graph, items);
}

Machine::Outcome Machine::step(CallGraph& graph, std::span<const Item> before, uint8_t byte, std::vector<Item>& after) {
    after.clear();
    for (const Item& item : before) {
        const StateId target = automaton_->next(item.state, byte);
        if (target != kNoState) add(after, {.state = target, .count = 0, .call = item.call});
    }
    return close(graph, after);
}

}  // namespace tandem::text::grammar
