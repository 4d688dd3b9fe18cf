// A prefix tree over byte strings: which keys does a text start with?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::text {

class Trie {
  public:
    static constexpr int32_t kNone = -1;

    struct Key {
        std::string_view text;
        int32_t value;  // not negative
    };

    Trie() = default;
    // Of equal keys the first counts; empty keys are left out.
    explicit Trie(std::vector<Key> keys);

    bool empty() const { return nodes_.empty(); }

    struct Match {
        size_t length = 0;
        int32_t value = kNone;
    };
    // The longest key that `text` starts with; length 0 when there is none.
    Match longest_prefix(std::string_view text) const;

    // Calls visit(length, value) for every key that `text` starts with, the shortest first.
    template <typename Visit>
    void for_each_prefix(std::string_view text, Visit visit) const {
        if (text.empty() || empty()) return;
        uint32_t node = roots_[static_cast<unsigned char>(text[0])];
        for (size_t length = 1; node != 0; ++length) {
            if (nodes_[node].value != kNone) visit(length, nodes_[node].value);
            if (length == text.size()) return;
            node = child(node, static_cast<unsigned char>(text[length]));
        }
    }

  private:
    struct Node {
        uint32_t first_edge = 0;
        uint16_t edges = 0;
        int32_t value = kNone;
    };
    struct Edge {
        unsigned char label;
        uint32_t node;
    };

    uint32_t child(uint32_t node, unsigned char label) const;

    std::array<uint32_t, 256> roots_{};  // 0: none; node 0 is the root itself
    std::vector<Node> nodes_;
    std::vector<Edge> edges_;
};

}  // namespace tandem::text
