// A grammar as rules over characters: what GBNF and JSON Schema are both translated to, before it is compiled.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/code_points.h"

namespace tandem::text::grammar {

using NodeId = uint32_t;
using RuleId = uint32_t;

inline constexpr uint32_t kUnbounded = UINT32_MAX;

struct Node {
    // counted: a repetition too long to be written out. list: items separated by the first of them.
    enum class Kind : uint8_t { literal, characters, sequence, choice, repeat, counted, rule, list };

    Kind kind = Kind::sequence;
    uint32_t begin = 0;  // of its bytes, sequences or children; the rule
    uint32_t end = 0;
    uint32_t min = 0;  // repeat
    uint32_t max = 0;
    uint32_t size = 0;  // about how many states it takes
};

// Nodes may be used in several places; each use is compiled anew, so larger ones should be shared(). A grammar that
// grows too large takes no more: the compiler refuses it, and front ends may ask full() to stop early.
class Grammar {
  public:
    Grammar() { nodes_.emplace_back(); }  // node 0 is empty; it is what a full grammar gives

    NodeId literal(std::string_view bytes);
    NodeId characters(const CodePoints& points);  // one of them
    NodeId sequence(std::span<const NodeId> parts);
    NodeId sequence(std::initializer_list<NodeId> parts) { return sequence(std::span(parts.begin(), parts.size())); }
    NodeId choice(std::span<const NodeId> options);  // of no options: nothing matches
    NodeId choice(std::initializer_list<NodeId> options) { return choice(std::span(options.begin(), options.size())); }
    NodeId repeat(NodeId part, uint32_t min, uint32_t max);
    NodeId optional(NodeId part) { return repeat(part, 0, 1); }
    static NodeId empty() { return 0; }
    NodeId nothing() { return choice({}); }
    NodeId use(RuleId rule);

    struct ListItem {
        NodeId node = 0;
        bool optional = false;
    };
    // The items in their order, optional ones perhaps left out, with the separator between those that are there.
    NodeId list(std::span<const ListItem> items, NodeId separator);

    // The same node, as a rule of its own unless it is small.
    NodeId shared(NodeId node);

    RuleId add_rule(std::string name);
    void define(RuleId rule, NodeId body);
    bool is_defined(RuleId rule) const { return rules_[rule].defined; }
    void set_root(RuleId rule) { root_ = rule; }

    bool full() const { return full_; }
    uint32_t size(NodeId node) const { return nodes_[node].size; }

    struct Rule {
        std::string name;
        NodeId body = 0;
        bool defined = false;
    };
    RuleId root() const { return root_; }
    const std::vector<Rule>& rules() const { return rules_; }
    const Node& node(NodeId id) const { return nodes_[id]; }
    std::string_view bytes(const Node& node) const;
    std::span<const ByteSequence> sequences(const Node& node) const;
    std::span<const NodeId> children(const Node& node) const;
    std::span<const ListItem> items(const Node& node) const;

  private:
    NodeId add(const Node& node);

    std::vector<Node> nodes_;
    std::vector<Rule> rules_;
    std::string bytes_;
    std::vector<ByteSequence> sequences_;
    std::vector<NodeId> children_;
    std::vector<ListItem> items_;
    RuleId root_ = 0;
    bool full_ = false;
};

// The number of a repetition as every notation writes it: the digits of `text` from `pos` on, which is moved past them.
Result<uint32_t> read_count(std::string_view text, size_t& pos);

}  // namespace tandem::text::grammar
