#include "text/grammar/nfa.h"

#include "text/grammar/limits.h"

namespace tandem::text::grammar {

namespace {

class Builder {
  public:
    explicit Builder(const Grammar& grammar) : grammar_(grammar) {}

    Result<Nfa> build() {
        if (grammar_.full()) return too_large();
        find_inlined();
        nfa_.rules.resize(grammar_.rules().size());
        bodies_.reserve(nfa_.rules.size());
        for (RuleId rule = 0; rule < grammar_.rules().size(); ++rule) bodies_.push_back({rule, body(rule)});
        // NOLINTNEXTLINE(modernize-loop-convert): building one may add others
        for (size_t i = 0; i < bodies_.size(); ++i) {
            const auto [rule, node] = bodies_[i];
            nfa_.rules[rule].start = add_state();
            nfa_.rules[rule].end = build_node(node, nfa_.rules[rule].start);
            if (nfa_.first_edges.size() > kMaxNfaStates || nfa_.rules.size() > kMaxRules) return too_large();
        }
        return std::move(nfa_);
    }

  private:
    struct Body {
        RuleId rule = 0;
        NodeId node = 0;
    };

    static Error too_large() {
        return fail("the grammar is too large (more than {} states): use fewer or smaller rules", kMaxNfaStates);
    }

    NodeId body(RuleId rule) const { return grammar_.rules()[rule].body; }

    // Small rules that use no others are copied to where they are used: fewer calls when it runs.
    void find_inlined() {
        const auto& rules = grammar_.rules();
        inlined_.resize(rules.size());
        for (RuleId rule = 0; rule < rules.size(); ++rule) {
            inlined_[rule] =
                rule != grammar_.root() && grammar_.size(body(rule)) <= kMaxInlinedStates && !uses_rules(body(rule));
        }
    }

    bool uses_rules(NodeId id) const {
        const Node& node = grammar_.node(id);
        switch (node.kind) {
            case Node::Kind::rule:
                return true;
            case Node::Kind::literal:
            case Node::Kind::characters:
                return false;
            case Node::Kind::list:
                for (const auto& item : grammar_.items(node)) {
                    if (uses_rules(item.node)) return true;
                }
                return false;
            default:
                for (const NodeId child : grammar_.children(node)) {
                    if (uses_rules(child)) return true;
                }
                return false;
        }
    }

    // Past the limit nothing is kept: build() refuses the grammar.
    uint32_t add_state() {
        if (nfa_.first_edges.size() > kMaxNfaStates) return 0;
        nfa_.first_edges.push_back(Nfa::kNone);
        return static_cast<uint32_t>(nfa_.first_edges.size()) - 1;
    }

    void add_edge(uint32_t from, NfaEdge edge) {
        if (nfa_.edges.size() > 4 * kMaxNfaStates) return;
        edge.next = nfa_.first_edges[from];
        nfa_.first_edges[from] = static_cast<uint32_t>(nfa_.edges.size());
        nfa_.edges.push_back(edge);
    }

    void connect(uint32_t from, uint32_t to) { add_edge(from, {.kind = NfaEdge::Kind::empty, .target = to}); }

    uint32_t add_bytes(uint32_t from, ByteRange range) {
        const uint32_t to = add_state();
        add_edge(from, {.kind = NfaEdge::Kind::bytes, .first = range.first, .last = range.last, .target = to});
        return to;
    }

    uint32_t add_call(uint32_t from, RuleId rule) {
        const uint32_t to = add_state();
        add_edge(from, {.kind = NfaEdge::Kind::call, .rule = rule, .target = to});
        return to;
    }

    // Adds what the node matches after `from`; the state after it. Front ends bound the depth of nodes.
    uint32_t build_node(NodeId id, uint32_t from) {
        if (nfa_.first_edges.size() > kMaxNfaStates) return from;
        const Node& node = grammar_.node(id);
        switch (node.kind) {
            case Node::Kind::literal:
                for (const char c : grammar_.bytes(node)) {
                    const auto byte = static_cast<uint8_t>(c);
                    from = add_bytes(from, {byte, byte});
                }
                return from;
            case Node::Kind::characters:
                return build_characters(node, from);
            case Node::Kind::sequence:
                for (const NodeId part : grammar_.children(node)) from = build_node(part, from);
                return from;
            case Node::Kind::choice: {
                const uint32_t end = add_state();
                for (const NodeId option : grammar_.children(node)) connect(build_node(option, from), end);
                return end;
            }
            case Node::Kind::repeat:
                return build_repeat(node, from);
            case Node::Kind::counted:
                return add_call(from, counted(grammar_.children(node).front(), node.min, node.max));
            case Node::Kind::rule:
                return inlined_[node.begin] ? build_node(body(node.begin), from) : add_call(from, node.begin);
            case Node::Kind::list:
                return build_list(node, from);
        }
        return from;
    }

    uint32_t build_characters(const Node& node, uint32_t from) {
        const uint32_t end = add_state();
        for (const ByteSequence& sequence : grammar_.sequences(node)) {
            uint32_t at = from;
            for (int i = 0; i + 1 < sequence.length; ++i) at = add_bytes(at, sequence.bytes[static_cast<size_t>(i)]);
            const ByteRange last = sequence.bytes[static_cast<size_t>(sequence.length) - 1];
            add_edge(at, {.kind = NfaEdge::Kind::bytes, .first = last.first, .last = last.last, .target = end});
        }
        return end;
    }

    uint32_t build_repeat(const Node& node, uint32_t from) {
        const NodeId part = grammar_.children(node).front();
        if (node.max == kUnbounded) {
            for (uint32_t i = 1; i < node.min; ++i) from = build_node(part, from);
            const uint32_t again = add_state();
            connect(from, again);
            const uint32_t end = build_node(part, again);
            connect(end, again);
            return node.min == 0 ? again : end;
        }
        for (uint32_t i = 0; i < node.min; ++i) from = build_node(part, from);
        const uint32_t end = add_state();
        for (uint32_t i = node.min; i < node.max; ++i) {
            connect(from, end);
            from = build_node(part, from);
        }
        connect(from, end);
        return end;
    }

    RuleId counted(NodeId part, uint32_t min, uint32_t max) {
        const auto body = loop_bodies_.try_emplace(part, static_cast<RuleId>(nfa_.rules.size()));
        if (body.second) {
            nfa_.rules.emplace_back();
            bodies_.push_back({body.first->second, part});
        }
        nfa_.rules.push_back({.loop = static_cast<uint32_t>(nfa_.loops.size())});
        nfa_.loops.push_back({.body = body.first->second, .min = min, .max = max});
        return static_cast<RuleId>(nfa_.rules.size()) - 1;
    }

    // Two rows of states: before the first item that is there, and after it.
    uint32_t build_list(const Node& node, uint32_t from) {
        const auto items = grammar_.items(node);
        const NodeId separator = items.front().node;
        uint32_t before = from;
        uint32_t after = add_state();
        for (const auto& item : items.subspan(1)) {
            const uint32_t next_before = add_state();
            const uint32_t next_after = add_state();
            connect(build_node(item.node, before), next_after);
            connect(build_node(item.node, build_node(separator, after)), next_after);
            if (item.optional) {
                connect(before, next_before);
                connect(after, next_after);
            }
            before = next_before;
            after = next_after;
        }
        const uint32_t end = add_state();
        connect(before, end);
        connect(after, end);
        return end;
    }

    const Grammar& grammar_;
    std::vector<bool> inlined_;
    std::vector<Body> bodies_;  // to build
    std::unordered_map<NodeId, RuleId> loop_bodies_;
    Nfa nfa_;
};

// Finds the rules whose end can be reached, over calls of rules that are found too: those that match something at all,
// or, without byte edges, those that may match nothing.
class RuleSearch {
  public:
    RuleSearch(const Nfa& nfa, bool over_bytes)
        : nfa_(nfa), over_bytes_(over_bytes), found_(nfa.rules.size()), waiting_(nfa.rules.size()) {
        seen_.resize(nfa.first_edges.size());
    }

    std::vector<bool> run() {
        for (RuleId rule = 0; rule < nfa_.rules.size(); ++rule) {
            if (nfa_.rules[rule].loop == Nfa::kNone) {
                visit(nfa_.rules[rule].start, rule);
            } else {
                const Loop& loop = nfa_.loops[nfa_.rules[rule].loop];
                if (loop.min == 0 || found_[loop.body])
                    find(rule);
                else
                    waiting_[loop.body].push_back({.rule = rule});
            }
            drain();
        }
        return found_;
    }

  private:
    struct Waiting {
        uint32_t state = Nfa::kNone;  // none: the rule is a loop
        RuleId rule = 0;
    };

    void visit(uint32_t state, RuleId rule) {
        if (seen_[state]) return;
        seen_[state] = true;
        work_.push_back({state, rule});
    }

    void find(RuleId rule) {
        if (found_[rule]) return;
        found_[rule] = true;
        for (const Waiting& waiting : waiting_[rule]) {
            if (waiting.state == Nfa::kNone)
                loops_.push_back(waiting.rule);
            else
                visit(waiting.state, waiting.rule);
        }
        waiting_[rule].clear();
    }

    void drain() {
        while (!work_.empty() || !loops_.empty()) {
            if (!loops_.empty()) {
                const RuleId rule = loops_.back();
                loops_.pop_back();
                find(rule);
                continue;
            }
            const Waiting at = work_.back();
            work_.pop_back();
            if (at.state == nfa_.rules[at.rule].end) find(at.rule);
            nfa_.for_each_edge(at.state, [&](const NfaEdge& edge) { follow(edge, at.rule); });
        }
    }

    void follow(const NfaEdge& edge, RuleId rule) {
        if (edge.kind == NfaEdge::Kind::bytes && !over_bytes_) return;
        if (edge.kind == NfaEdge::Kind::call && !found_[edge.rule])
            waiting_[edge.rule].push_back({edge.target, rule});
        else
            visit(edge.target, rule);
    }

    const Nfa& nfa_;
    bool over_bytes_;
    std::vector<bool> found_;
    std::vector<bool> seen_;
    std::vector<std::vector<Waiting>> waiting_;  // for a rule to be found
    std::vector<Waiting> work_;
    std::vector<RuleId> loops_;
};

}  // namespace

Result<Nfa> build_nfa(const Grammar& grammar) {
    Nfa nfa = TRY(Builder(grammar).build());
    const auto productive = RuleSearch(nfa, true).run();
    const auto nullable = RuleSearch(nfa, false).run();
    for (RuleId rule = 0; rule < nfa.rules.size(); ++rule) {
        nfa.rules[rule].productive = productive[rule];
        nfa.rules[rule].nullable = nullable[rule];
    }
    // A loop over a part that may be nothing needs no minimum: nothing fills it up.
    for (Loop& loop : nfa.loops) {
        if (nullable[loop.body]) loop.min = 0;
    }
    return nfa;
}

}  // namespace tandem::text::grammar
