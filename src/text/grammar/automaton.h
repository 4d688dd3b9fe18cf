// A grammar compiled to a pushdown automaton over bytes: a deterministic automaton for each rule, whose edges are bytes
// or calls of rules.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

using StateId = uint32_t;
inline constexpr StateId kNoState = UINT32_MAX;

struct ByteEdge {
    uint8_t first = 0;
    uint8_t last = 0;
    StateId target = kNoState;
};

struct CallEdge {
    RuleId rule = 0;
    StateId target = kNoState;  // where it goes on when the rule has matched
};

// A repetition that is counted when it runs: its rule has one state, which calls the body as often as it may.
struct Loop {
    RuleId body = 0;
    uint32_t min = 0;
    uint32_t max = 0;
};

struct State {
    static constexpr uint32_t kNoLoop = UINT32_MAX;

    uint32_t edges_begin = 0;  // ascending and disjoint
    uint32_t edges_end = 0;
    uint32_t calls_begin = 0;
    uint32_t calls_end = 0;
    uint32_t loop = kNoLoop;
    bool accepts = false;  // the rule may end here

    bool is_dead_end() const { return edges_begin == edges_end && calls_begin == calls_end && loop == kNoLoop; }
};

// Every state can be reached and can be left to the end of its rule. A call matches at least one byte: where a rule may
// match nothing, its callers have that way as well.
class Automaton {
  public:
    static Result<Automaton> compile(const Grammar& grammar);

    StateId start() const { return starts_[root_]; }
    StateId start(RuleId rule) const { return starts_[rule]; }
    const State& state(StateId id) const { return states_[id]; }
    std::span<const ByteEdge> edges(const State& state) const {
        return std::span(edges_).subspan(state.edges_begin, state.edges_end - state.edges_begin);
    }
    std::span<const CallEdge> calls(const State& state) const {
        return std::span(calls_).subspan(state.calls_begin, state.calls_end - state.calls_begin);
    }
    const Loop& loop(const State& state) const { return loops_[state.loop]; }
    StateId next(StateId id, uint8_t byte) const;
    bool accepts_nothing() const { return nullable_root_; }

    size_t states() const { return states_.size(); }
    size_t rules() const { return starts_.size(); }

  private:
    friend class Determinizer;

    std::vector<State> states_;
    std::vector<ByteEdge> edges_;
    std::vector<CallEdge> calls_;
    std::vector<Loop> loops_;
    std::vector<StateId> starts_;  // by rule; kNoState for those that are not used
    RuleId root_ = 0;
    bool nullable_root_ = false;
};

}  // namespace tandem::text::grammar
