#include "text/trie.h"

#include <algorithm>

namespace tandem::text {

// Level by level: a node owns a range of the sorted keys that share its prefix.
Trie::Trie(std::vector<Key> keys) {
    std::erase_if(keys, [](const Key& key) { return key.text.empty(); });
    if (keys.empty()) return;
    std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.text < b.text; });

    struct Range {
        size_t begin, end;
    };
    std::vector<Range> level = {{0, keys.size()}};
    std::vector<Range> next;
    nodes_.emplace_back();
    size_t node = 0;
    for (size_t depth = 0; !level.empty(); ++depth) {
        next.clear();
        for (const Range& range : level) {
            size_t at = range.begin;
            if (keys[at].text.size() == depth) nodes_[node].value = keys[at].value;
            while (at < range.end && keys[at].text.size() == depth) ++at;
            nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
            while (at < range.end) {
                const char label = keys[at].text[depth];
                const size_t begin = at;
                while (at < range.end && keys[at].text[depth] == label) ++at;
                edges_.push_back({static_cast<unsigned char>(label), static_cast<uint32_t>(nodes_.size())});
                nodes_.emplace_back();
                next.push_back({begin, at});
            }
            nodes_[node].edges = static_cast<uint16_t>(edges_.size() - nodes_[node].first_edge);
            ++node;
        }
        std::swap(level, next);
    }
    for (size_t i = 0; i < nodes_[0].edges; ++i) roots_[edges_[i].label] = edges_[i].node;
}

uint32_t Trie::child(uint32_t node, unsigned char label) const {
    const Node& from = nodes_[node];
    const auto begin = edges_.begin() + from.first_edge;
    const auto end = begin + from.edges;
    const auto found =
        std::lower_bound(begin, end, label, [](const Edge& edge, unsigned char byte) { return edge.label < byte; });
    return found != end && found->label == label ? found->node : 0;
}

Trie::Match Trie::longest_prefix(std::string_view text) const {
    Match best;
    for_each_prefix(text, [&](size_t length, int32_t value) { best = {.length = length, .value = value}; });
    return best;
}

}  // namespace tandem::text
