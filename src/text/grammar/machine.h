// Runs an automaton over bytes and keeps every reading of the text at once, as Earley's algorithm does: readings that
// made the same call at the same place share it, so ambiguity and left recursion cost little and never loop.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "text/grammar/automaton.h"

namespace tandem::text::grammar {

using CallId = uint32_t;

// A state of a rule, inside of a call.
struct Item {
    StateId state = 0;
    uint32_t count = 0;  // of a loop: how often its body has matched
    CallId call = 0;

    auto operator<=>(const Item&) const = default;  // NOLINT(modernize-use-nullptr): what the compiler makes of it
};

// The calls of rules made so far; for each, where its callers go on after it. Call 0 is that of the root, which has
// none.
class CallGraph {
  public:
    CallGraph() { ends_.push_back(0); }

    std::span<const Item> callers(CallId call) const {
        return std::span(callers_).subspan(ends_[call - 1], ends_[call] - ends_[call - 1]);
    }
    size_t calls() const { return ends_.size(); }
    void add_call(std::span<const Item> callers) {
        callers_.insert(callers_.end(), callers.begin(), callers.end());
        ends_.push_back(static_cast<uint32_t>(callers_.size()));
    }
    void truncate(size_t calls) {
        ends_.resize(calls);
        callers_.resize(ends_.back());
    }

  private:
    std::vector<Item> callers_;
    std::vector<uint32_t> ends_;  // in callers_, by call
};

// Scratch space for steps; any number of texts can be run with one machine, one after the other.
class Machine {
  public:
    explicit Machine(const Automaton& automaton) : automaton_(&automaton) {}

    struct Outcome {
        bool overflow = false;   // more readings than we are willing to follow
        bool root_ends = false;  // call 0 may end here
    };

    // The items before any byte.
    Outcome start(CallGraph& graph, std::vector<Item>& items);
    // From the items before a byte to those after it; none: the text does not match.
    Outcome step(CallGraph& graph, std::span<const Item> before, uint8_t byte, std::vector<Item>& after);
    // Adds to the items what they reach without a byte: the ends of calls, and new calls.
    Outcome close(CallGraph& graph, std::vector<Item>& items);

    bool accepts(const Item& item) const;
    // Nothing but the end of its call can follow.
    bool is_done(const Item& item) const;

  private:
    struct NewCall {
        RuleId rule = 0;
        std::vector<Item> callers;
    };

    void add(std::vector<Item>& items, const Item& item);
    void call(std::vector<Item>& items, RuleId rule, const Item& caller);
    // Calls whose caller only waits to end itself are made by the caller's callers: recursion at the end of a rule
    // must not grow.
    void collect_callers(const CallGraph& graph, size_t new_call, std::vector<bool>& seen,
                         std::vector<Item>& out) const;
    void commit(CallGraph& graph);

    const Automaton* automaton_;
    CallId first_new_ = 0;
    std::vector<NewCall> new_calls_;
    size_t used_ = 0;  // of new_calls_, whose memory is kept
    std::vector<Item> flat_;
    bool overflow_ = false;
};

}  // namespace tandem::text::grammar
