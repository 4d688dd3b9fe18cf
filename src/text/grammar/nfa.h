// The step between a grammar and its automaton: a nondeterministic automaton for each rule.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "text/grammar/automaton.h"

namespace tandem::text::grammar {

struct NfaEdge {
    enum class Kind : uint8_t { empty, bytes, call };

    Kind kind = Kind::empty;
    uint8_t first = 0;
    uint8_t last = 0;
    RuleId rule = 0;
    uint32_t target = 0;
    uint32_t next = UINT32_MAX;  // edge of the same state
};

struct Nfa {
    static constexpr uint32_t kNone = UINT32_MAX;

    struct Rule {
        uint32_t start = kNone;
        uint32_t end = kNone;
        uint32_t loop = kNone;    // instead of states
        bool nullable = false;    // may match nothing
        bool productive = false;  // matches something at all
    };

    std::vector<uint32_t> first_edges;  // by state
    std::vector<NfaEdge> edges;
    std::vector<Rule> rules;  // those of the grammar, then those made for loops
    std::vector<Loop> loops;

    template <typename Visit>
    void for_each_edge(uint32_t state, Visit visit) const {
        for (uint32_t i = first_edges[state]; i != kNone; i = edges[i].next) visit(edges[i]);
    }
};

Result<Nfa> build_nfa(const Grammar& grammar);

}  // namespace tandem::text::grammar
