#include "text/grammar/automaton.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/grammar/limits.h"
#include "text/grammar/nfa.h"

namespace tandem::text::grammar {

// Makes the automaton of each rule that the root needs, by the subset construction.
class Determinizer {
  public:
    explicit Determinizer(const Nfa& nfa) : nfa_(nfa), seen_(nfa.first_edges.size()), live_(nfa.first_edges.size()) {}

    Result<Automaton> run(RuleId root) {
        out_.root_ = root;
        out_.nullable_root_ = nfa_.rules[root].nullable;
        out_.loops_ = nfa_.loops;
        out_.starts_.assign(nfa_.rules.size(), kNoState);
        need(root);
        // NOLINTNEXTLINE(modernize-loop-convert): making one may need others
        for (size_t i = 0; i < needed_.size(); ++i) TRY(make(needed_[i]));
        return std::move(out_);
    }

  private:
    using Subset = std::vector<uint32_t>;
    struct SubsetHash {
        size_t operator()(const Subset& subset) const {
            uint64_t hash = 0xCBF29CE484222325U;
            for (const uint32_t state : subset) hash = (hash ^ state) * 0x100000001B3U;
            return hash ^ (hash >> 29);
        }
    };

    void need(RuleId rule) {
        if (out_.starts_[rule] != kNoState) return;
        out_.starts_[rule] = add_state();  // the others of the rule follow when it is made
        needed_.push_back(rule);
    }

    StateId add_state() {
        out_.states_.emplace_back();
        return static_cast<StateId>(out_.states_.size()) - 1;
    }

    Status make(RuleId rule) {
        const Nfa::Rule& from = nfa_.rules[rule];
        if (from.loop != Nfa::kNone) {
            State& state = out_.states_[out_.starts_[rule]];
            state.loop = from.loop;
            need(nfa_.loops[from.loop].body);
            return Ok{};
        }
        mark_live(from);
        subsets_.clear();
        ids_.clear();
        end_ = from.end;
        subsets_.push_back(&*ids_.emplace(close({from.start}), out_.starts_[rule]).first);
        // NOLINTNEXTLINE(modernize-loop-convert): expanding one may add others
        for (size_t i = 0; i < subsets_.size(); ++i) {
            const auto& [subset, id] = *subsets_[i];
            work_ += subset.size() + 1;
            expand(subset, id);
            if (out_.states_.size() > kMaxStates || work_ > kMaxSubsetWork) {
                return fail("the grammar is too complex (more than {} states): simplify its patterns and alternatives",
                            kMaxStates);
            }
        }
        return Ok{};
    }

    // The states of a rule from which its end can be reached.
    void mark_live(const Nfa::Rule& rule) {
        Subset reached = {rule.start};
        std::vector<std::pair<uint32_t, uint32_t>> reverse;  // target, source
        seen_[rule.start] = true;
        for (size_t i = 0; i < reached.size(); ++i) {
            nfa_.for_each_edge(reached[i], [&](const NfaEdge& edge) {
                if (edge.kind == NfaEdge::Kind::call && !nfa_.rules[edge.rule].productive) return;
                reverse.emplace_back(edge.target, reached[i]);
                if (!seen_[edge.target]) {
                    seen_[edge.target] = true;
                    reached.push_back(edge.target);
                }
            });
        }
        for (const uint32_t state : reached) seen_[state] = false;
        std::sort(reverse.begin(), reverse.end());
        Subset work = {rule.end};
        live_[rule.end] = true;
        while (!work.empty()) {
            const uint32_t state = work.back();
            work.pop_back();
            auto at = std::lower_bound(reverse.begin(), reverse.end(), std::pair(state, uint32_t{0}));
            for (; at != reverse.end() && at->first == state; ++at) {
                if (live_[at->second]) continue;
                live_[at->second] = true;
                work.push_back(at->second);
            }
        }
    }

    // Adds what is reached without a byte, sorted.
    Subset close(Subset subset) {
        for (const uint32_t state : subset) seen_[state] = true;
        for (size_t i = 0; i < subset.size(); ++i) {
            nfa_.for_each_edge(subset[i], [&](const NfaEdge& edge) {
                const bool passes = edge.kind == NfaEdge::Kind::empty ||
                                    (edge.kind == NfaEdge::Kind::call && nfa_.rules[edge.rule].nullable);
                if (!passes || seen_[edge.target] || !live_[edge.target]) return;
                seen_[edge.target] = true;
                subset.push_back(edge.target);
            });
        }
        for (const uint32_t state : subset) seen_[state] = false;
        work_ += subset.size();
        std::sort(subset.begin(), subset.end());
        return subset;
    }

    StateId state_of(Subset subset) {
        std::sort(subset.begin(), subset.end());
        subset.erase(std::unique(subset.begin(), subset.end()), subset.end());
        subset = close(std::move(subset));
        const auto [known, is_new] = ids_.try_emplace(std::move(subset), static_cast<StateId>(out_.states_.size()));
        if (is_new) {
            add_state();
            subsets_.push_back(&*known);
        }
        return known->second;
    }

    void expand(const Subset& subset, StateId id) {
        bytes_.clear();
        called_.clear();
        for (const uint32_t state : subset) {
            nfa_.for_each_edge(state, [&](const NfaEdge& edge) {
                if (!live_[edge.target]) return;
                if (edge.kind == NfaEdge::Kind::bytes) bytes_.push_back(edge);
                if (edge.kind == NfaEdge::Kind::call && nfa_.rules[edge.rule].productive)
                    called_.emplace_back(edge.rule, edge.target);
            });
        }
        const std::vector<ByteEdge> edges = expand_bytes(bytes_);
        const std::vector<CallEdge> call_edges = expand_calls();
        State& state = out_.states_[id];
        state.accepts = std::binary_search(subset.begin(), subset.end(), end_);
        state.edges_begin = static_cast<uint32_t>(out_.edges_.size());
        out_.edges_.insert(out_.edges_.end(), edges.begin(), edges.end());
        state.edges_end = static_cast<uint32_t>(out_.edges_.size());
        state.calls_begin = static_cast<uint32_t>(out_.calls_.size());
        out_.calls_.insert(out_.calls_.end(), call_edges.begin(), call_edges.end());
        state.calls_end = static_cast<uint32_t>(out_.calls_.size());
    }

    std::vector<CallEdge> expand_calls() {
        std::sort(called_.begin(), called_.end());
        std::vector<CallEdge> out;
        for (size_t i = 0; i < called_.size();) {
            const RuleId rule = called_[i].first;
            Subset targets;
            for (; i < called_.size() && called_[i].first == rule; ++i) targets.push_back(called_[i].second);
            need(rule);
            out.push_back({.rule = rule, .target = state_of(std::move(targets))});
        }
        return out;
    }

    // Cuts the bytes where any edge begins or ends; each piece leads to one subset.
    std::vector<ByteEdge> expand_bytes(std::vector<NfaEdge>& edges) {
        std::array<bool, 257> cuts{};
        for (const NfaEdge& edge : edges) {
            cuts[edge.first] = true;
            cuts[edge.last + size_t{1}] = true;
        }
        std::sort(edges.begin(), edges.end(), [](const NfaEdge& a, const NfaEdge& b) { return a.first < b.first; });
        std::vector<ByteEdge> out;
        std::vector<NfaEdge> active;
        size_t next = 0;
        for (size_t first = 0; first < 256;) {
            if (!cuts[first]) {
                ++first;
                continue;
            }
            size_t last = first;
            while (last < 255 && !cuts[last + 1]) ++last;
            for (; next < edges.size() && edges[next].first <= first; ++next) active.push_back(edges[next]);
            std::erase_if(active, [&](const NfaEdge& edge) { return edge.last < first; });
            if (!active.empty()) {
                Subset targets;
                targets.reserve(active.size());
                for (const NfaEdge& edge : active) targets.push_back(edge.target);
                add_edge(out, {static_cast<uint8_t>(first), static_cast<uint8_t>(last), state_of(std::move(targets))});
            }
            first = last + 1;
        }
        return out;
    }

    static void add_edge(std::vector<ByteEdge>& edges, ByteEdge edge) {
        if (!edges.empty() && edges.back().target == edge.target && edges.back().last + 1 == edge.first)
            edges.back().last = edge.last;
        else
            edges.push_back(edge);
    }

    const Nfa& nfa_;
    Automaton out_;
    std::vector<RuleId> needed_;
    std::vector<bool> seen_;
    std::vector<bool> live_;
    size_t work_ = 0;
    // Of the rule that is being made.
    uint32_t end_ = 0;
    std::unordered_map<Subset, StateId, SubsetHash> ids_;
    std::vector<const std::pair<const Subset, StateId>*> subsets_;  // of ids_, in the order they were met
    // Of the subset that is being expanded.
    std::vector<NfaEdge> bytes_;
    std::vector<std::pair<RuleId, uint32_t>> called_;  // and the state after the call
};

Result<Automaton> Automaton::compile(const Grammar& grammar) {
    const Nfa nfa = TRY(build_nfa(grammar));
    if (!nfa.rules[grammar.root()].productive) {
        return fail("no finite text matches it: an alternative that ends is missing, or its bounds exclude everything");
    }
    return Determinizer(nfa).run(grammar.root());
}

StateId Automaton::next(StateId id, uint8_t byte) const {
    const auto all = edges(states_[id]);
    const auto at =
        std::partition_point(all.begin(), all.end(), [&](const ByteEdge& edge) { return edge.last < byte; });
    return at != all.end() && at->first <= byte ? at->target : kNoState;
}

}  // namespace tandem::text::grammar
