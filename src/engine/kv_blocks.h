// KvBlocks: which sequence holds which blocks of the key-value cache, and what the blocks nobody holds still contain.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/batch.h"
#include "text/tokenizer.h"

namespace tandem::engine {

using text::TokenId;

// Blocks that `positions` take.
inline int blocks_of(int64_t positions, int block_tokens) {
    return static_cast<int>((positions + block_tokens - 1) / block_tokens);
}

// The tokens of one block, and by its parent those of all blocks before it. Contents are found by comparing tokens,
// never by a hash alone, so nothing is ever taken for something else.
struct BlockContent;

// What one sequence holds of the cache.
struct BlockTable {
    struct Group {
        std::vector<int32_t> blocks;  // [i] holds positions [i * block_tokens, (i + 1) * block_tokens)
        int first = 0;                // those before it were given back: the window has left them
    };
    std::array<Group, device::kMaxCacheGroups> groups;
    BlockContent* known = nullptr;  // content of the blocks that are full; null: the table is empty
    int full = 0;                   // how many they are
};

// A block to be copied on the device before the next step writes to it.
struct BlockCopy {
    int group = 0;
    int32_t from = 0;
    int32_t to = 0;
};

class KvBlocks {
  public:
    struct Group {
        int window = 0;  // 0: all positions are kept
        int blocks = 0;
    };

    KvBlocks(int block_tokens, std::vector<Group> groups);
    KvBlocks(const KvBlocks&) = delete;
    KvBlocks& operator=(const KvBlocks&) = delete;

    // Begins a table with the blocks that hold the longest known beginning of `tokens`, the last token excepted: its
    // logits are wanted. Returns how many positions that is. Only contents with the same salt are found.
    int take_prefix(BlockTable& table, std::string_view salt, std::span<const TokenId> tokens);
    // Begins a table with nothing.
    void take_nothing(BlockTable& table, std::string_view salt);

    // Makes sure that positions [written, end) have blocks which nobody else reads: new ones, and a copy of the block
    // at `written` if it is shared. Does nothing and returns false if there are not enough.
    bool grow(BlockTable& table, int written, int end);
    // Whether a sequence could get blocks up to `end`, `rows` at a time, and leave `spare` in every group.
    bool has_room(const BlockTable& table, int end, int rows, int spare) const;

    // After a step: notes what the blocks contain that became full, so that others find them, and gives back those that
    // the window has left. `tokens` are those of the sequence, of which `computed` lie in the cache.
    void settle(BlockTable& table, std::span<const TokenId> tokens, int computed);
    // Another table with the same blocks, for a sequence that goes on from `computed` in its own way.
    BlockTable fork(const BlockTable& table, int computed);
    // Gives everything back. What was computed stays known until the blocks are needed, the last partial block too.
    void release(BlockTable& table, std::span<const TokenId> tokens, int computed);
    // Forgets all contents: the device lost them. No table may hold anything.
    void forget();

    // To be made, in any order, before the next step; then copied().
    std::span<const BlockCopy> copies() const { return copies_; }
    void copied();

    int block_tokens() const { return block_tokens_; }
    int groups() const { return static_cast<int>(groups_.size()); }
    int total(int group) const { return groups_[static_cast<size_t>(group)].blocks; }
    int available(int group) const { return pools_[static_cast<size_t>(group)].available; }  // held by nobody
    // The share of blocks that somebody holds, in the group where it is largest.
    double usage() const;

    // What is wrong if `tables` are all that there are: an empty string unless there is a bug. For tests.
    std::string audit(std::span<const BlockTable* const> tables) const;

  private:
    struct Block {
        int refs = 0;
        int copying = 0;  // of them, held only until copied()
        BlockContent* content = nullptr;
        int32_t older = -1;  // neighbours among those that nobody holds
        int32_t newer = -1;
    };
    struct Pool {
        std::vector<Block> blocks;
        int32_t oldest = -1;
        int32_t newest = -1;
        int available = 0;
    };
    struct Path;

    Block& block(size_t group, int32_t index) { return pools_[group].blocks[static_cast<size_t>(index)]; }
    int first_needed(size_t group, int positions) const;

    void link(Pool& pool, int32_t index, bool as_oldest);
    void unlink(Pool& pool, int32_t index);
    void hold(size_t group, int32_t index);
    void drop(size_t group, int32_t index);
    int32_t take_oldest(size_t group);
    bool must_copy(size_t group, int32_t index, int kept) const;
    int missing(const BlockTable& table, size_t group, int written, int end) const;
    void own(BlockTable& table, size_t group, int written);
    void take_back_copies(BlockTable& table, int computed);

    BlockContent* find(const BlockContent& parent, std::span<const TokenId> tokens);
    BlockContent& find_or_add(BlockContent* parent, std::span<const TokenId> tokens);
    BlockContent& root(std::string_view salt);
    BlockContent* closest(const BlockContent& parent, std::span<const TokenId> tokens, int& common);
    Path find_path(BlockContent& from, std::span<const TokenId> tokens);
    void choose(Path& path) const;
    void note(size_t group, int32_t index, BlockContent& content);
    void pin(BlockTable& table, BlockContent* content);
    void forget_content(size_t group, int32_t index);
    void remove_unused(BlockContent* content);

    struct Key {
        uint64_t parent = 0;
        std::vector<TokenId> tokens;
    };
    struct View {
        uint64_t parent = 0;
        std::span<const TokenId> tokens;
    };
    struct Before {
        using is_transparent = void;  // NOLINT(readability-identifier-naming): the name that std::map looks for
        template <typename A, typename B>
        bool operator()(const A& a, const B& b) const {
            if (a.parent != b.parent) return a.parent < b.parent;
            return std::lexicographical_compare(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end());
        }
    };

    friend struct BlockContent;
    int block_tokens_;
    std::vector<Group> groups_;
    std::vector<Pool> pools_;
    std::map<Key, BlockContent, Before> contents_;  // those with the same parent lie side by side, in order of tokens
    uint64_t last_id_ = 0;
    std::vector<BlockCopy> copies_;
};

struct BlockContent {
    uint64_t id = 0;  // never used again, so that a parent is never mistaken
    BlockContent* parent = nullptr;
    const KvBlocks::Key* key = nullptr;
    std::array<int32_t, device::kMaxCacheGroups> block{};  // per group, where it lies; -1: nowhere
    int children = 0;
    int pins = 0;  // tables whose `known` it is

    bool used() const;
};

}  // namespace tandem::engine
