#include "text/grammar/grammar.h"

#include <algorithm>

#include "text/grammar/limits.h"

namespace tandem::text::grammar {

namespace {

uint32_t saturate(uint64_t size) {
    return static_cast<uint32_t>(std::min<uint64_t>(size, UINT32_MAX));
}

// "*", "+" and "?" take the part once, however large it is.
bool is_simple_repeat(uint32_t min, uint32_t max) {
    return min <= 1 && (max <= 1 || max == kUnbounded);
}

template <typename T>
uint32_t count(const T& container) {
    return static_cast<uint32_t>(container.size());
}

}  // namespace

NodeId Grammar::add(const Node& node) {
    if (nodes_.size() + bytes_.size() + sequences_.size() + children_.size() + items_.size() > kMaxNodes) {
        full_ = true;
        return empty();
    }
    nodes_.push_back(node);
    return count(nodes_) - 1;
}

NodeId Grammar::literal(std::string_view bytes) {
    const uint32_t begin = count(bytes_);
    if (!full_) bytes_ += bytes;
    return add({.kind = Node::Kind::literal, .begin = begin, .end = count(bytes_), .size = count(bytes)});
}

NodeId Grammar::characters(const CodePoints& points) {
    const uint32_t begin = count(sequences_);
    const auto sequences = to_byte_sequences(points);
    if (!full_) sequences_.insert(sequences_.end(), sequences.begin(), sequences.end());
    uint32_t size = 1;
    for (const ByteSequence& sequence : sequences) size += static_cast<uint32_t>(sequence.length) - 1;
    return add({.kind = Node::Kind::characters, .begin = begin, .end = count(sequences_), .size = size});
}

NodeId Grammar::sequence(std::span<const NodeId> parts) {
    if (parts.size() == 1) return parts.front();
    if (parts.empty()) return empty();
    const uint32_t begin = count(children_);
    uint64_t size = 0;
    for (const NodeId part : parts) size += nodes_[part].size;
    if (!full_) children_.insert(children_.end(), parts.begin(), parts.end());
    return add({.kind = Node::Kind::sequence, .begin = begin, .end = count(children_), .size = saturate(size)});
}

NodeId Grammar::choice(std::span<const NodeId> options) {
    if (options.size() == 1) return options.front();
    const uint32_t begin = count(children_);
    uint64_t size = 1;
    for (const NodeId option : options) size += nodes_[option].size;
    if (!full_) children_.insert(children_.end(), options.begin(), options.end());
    return add({.kind = Node::Kind::choice, .begin = begin, .end = count(children_), .size = saturate(size)});
}

NodeId Grammar::repeat(NodeId part, uint32_t min, uint32_t max) {
    const uint32_t begin = count(children_);
    if (!full_) children_.push_back(part);
    uint64_t copies = max == kUnbounded ? min + uint64_t{1} : max;
    if (is_simple_repeat(min, max)) copies = 1;
    const uint64_t size = copies * (nodes_[part].size + uint64_t{1}) + 1;
    const bool is_counted = !is_simple_repeat(min, max) && size > kMaxUnrolledStates;
    return add({.kind = is_counted ? Node::Kind::counted : Node::Kind::repeat,
                .begin = begin,
                .end = count(children_),
                .min = min,
                .max = max,
                .size = is_counted ? 2 : saturate(size)});
}

NodeId Grammar::use(RuleId rule) {
    return add({.kind = Node::Kind::rule, .begin = rule, .end = rule, .size = 1});
}

NodeId Grammar::list(std::span<const ListItem> items, NodeId separator) {
    std::vector<ListItem> all;
    all.reserve(items.size() + 1);
    all.push_back({separator, false});
    uint64_t size = 0;
    for (const ListItem& item : items) {
        all.push_back({shared(item.node), item.optional});
        size += 2 * (uint64_t{nodes_[all.back().node].size} + nodes_[separator].size) + 2;
    }
    const uint32_t begin = count(items_);
    if (!full_) items_.insert(items_.end(), all.begin(), all.end());
    return add({.kind = Node::Kind::list, .begin = begin, .end = count(items_), .size = saturate(size)});
}

NodeId Grammar::shared(NodeId node) {
    if (nodes_[node].size <= kMaxInlinedStates * 2) return node;
    const RuleId rule = add_rule({});
    define(rule, node);
    return use(rule);
}

RuleId Grammar::add_rule(std::string name) {
    if (rules_.size() >= kMaxRules) {
        full_ = true;
        return 0;
    }
    rules_.push_back({.name = std::move(name)});
    return count(rules_) - 1;
}

void Grammar::define(RuleId rule, NodeId body) {
    rules_[rule].body = body;
    rules_[rule].defined = true;
}

std::string_view Grammar::bytes(const Node& node) const {
    return std::string_view(bytes_).substr(node.begin, node.end - node.begin);
}

std::span<const ByteSequence> Grammar::sequences(const Node& node) const {
    return std::span(sequences_).subspan(node.begin, node.end - node.begin);
}

std::span<const NodeId> Grammar::children(const Node& node) const {
    return std::span(children_).subspan(node.begin, node.end - node.begin);
}

std::span<const Grammar::ListItem> Grammar::items(const Node& node) const {
    return std::span(items_).subspan(node.begin, node.end - node.begin);
}

Result<uint32_t> read_count(std::string_view text, size_t& pos) {
    uint64_t count = 0;
    const size_t begin = pos;
    for (; pos < text.size() && text[pos] >= '0' && text[pos] <= '9'; ++pos) {
        count = count * 10 + static_cast<uint64_t>(text[pos] - '0');
        if (count > kMaxCount) return fail("a repetition is bounded by {}", kMaxCount);
    }
    if (pos == begin) return fail("expected a number in a repetition");
    return static_cast<uint32_t>(count);
}

}  // namespace tandem::text::grammar
