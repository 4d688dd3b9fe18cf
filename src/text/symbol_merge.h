// Merges neighbouring symbols, best pair first, with a queue: n log n, however long the text.
#pragma once

#include <algorithm>
#include <bitset>
#include <optional>
#include <string_view>

#include "text/token_model.h"

namespace tandem::text {

struct Merge {
    uint32_t rank;
    TokenId id;
};

// Which bytes may stand beside each other inside a merged piece. Between others a text can be cut before merging,
// which keeps the queues short.
class ByteNeighbours {
  public:
    void add(char left, char right) { pairs_.set(index(left, right)); }
    bool contains(char left, char right) const { return pairs_.test(index(left, right)); }

  private:
    static size_t index(char left, char right) {
        return size_t{static_cast<unsigned char>(left)} << 8 | static_cast<unsigned char>(right);
    }
    std::bitset<65536> pairs_;
};

// Merges symbols [begin, end). find(left, right) gives the Merge of two symbols, if there is one.
template <typename Find>
void merge_symbols(ModelScratch& scratch, size_t begin, size_t end, Find find) {
    auto& symbols = scratch.symbols;
    auto& queue = scratch.queue;
    const auto later = [](const MergeCandidate& a, const MergeCandidate& b) { return a.order > b.order; };
    const auto candidate = [&](int32_t left, int32_t right) -> std::optional<MergeCandidate> {
        const std::optional<Merge> merge = find(symbols[left], symbols[right]);
        if (!merge) return std::nullopt;
        const uint64_t order = uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left);
        return MergeCandidate{order, merge->id, symbols[left].size + symbols[right].size};
    };
    const auto add = [&](int32_t left, int32_t right) {
        if (left < 0 || right < 0) return;
        if (const auto found = candidate(left, right)) {
            queue.push_back(*found);
            std::push_heap(queue.begin(), queue.end(), later);
        }
    };

    queue.clear();
    symbols[begin].prev = -1;
    symbols[end - 1].next = -1;
    for (size_t i = begin + 1; i < end; ++i) {
        if (const auto found = candidate(static_cast<int32_t>(i - 1), static_cast<int32_t>(i))) queue.push_back(*found);
    }
    std::make_heap(queue.begin(), queue.end(), later);
    while (!queue.empty()) {
        std::pop_heap(queue.begin(), queue.end(), later);
        const MergeCandidate best = queue.back();
        queue.pop_back();
        const int32_t index = best.left();
        Symbol& left = symbols[index];
        if (left.size == 0 || left.next < 0) continue;
        Symbol& right = symbols[left.next];
        if (left.size + right.size != best.size) continue;
        left.size += right.size;
        left.id = best.id;
        left.next = right.next;
        right.size = 0;
        if (left.next >= 0) symbols[left.next].prev = index;
        add(left.prev, index);
        add(index, left.next);
    }
}

// Calls merge_run(begin, end) for every run of symbols that joined(left, right) holds together.
template <typename Joined, typename MergeRun>
void for_each_run(const std::vector<Symbol>& symbols, Joined joined, MergeRun merge_run) {
    size_t begin = 0;
    for (size_t i = 1; i <= symbols.size(); ++i) {
        if (i < symbols.size() && joined(symbols[i - 1], symbols[i])) continue;
        if (i - begin > 1) merge_run(begin, i);
        begin = i;
    }
}

}  // namespace tandem::text
