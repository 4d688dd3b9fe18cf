#include "engine/kv_blocks.h"

#include <fmt/format.h>
#include <algorithm>

#include "base/check.h"

namespace tandem::engine {

namespace {

constexpr int32_t kNowhere = -1;

}  // namespace

bool BlockContent::used() const {
    return children > 0 || pins > 0 || std::any_of(block.begin(), block.end(), [](int32_t at) { return at >= 0; });
}

// The known blocks that a sequence of tokens begins with.
struct KvBlocks::Path {
    std::vector<BlockContent*> full;
    BlockContent* partial = nullptr;  // where they part, or the last token lies
    int common = 0;                   // tokens in common with it
    int positions = 0;                // that can be taken over
};

KvBlocks::KvBlocks(int block_tokens, std::vector<Group> groups)
    : block_tokens_(block_tokens), groups_(std::move(groups)), pools_(groups_.size()) {
    CHECK(block_tokens > 0 && groups_.size() <= device::kMaxCacheGroups);
    for (size_t g = 0; g < groups_.size(); ++g) {
        pools_[g].blocks.resize(static_cast<size_t>(groups_[g].blocks));
        for (int32_t i = 0; i < groups_[g].blocks; ++i) link(pools_[g], i, false);
    }
}

// ---- Blocks that nobody holds, oldest first: those without content are as old as can be.

void KvBlocks::link(Pool& pool, int32_t index, bool as_oldest) {
    Block& block = pool.blocks[static_cast<size_t>(index)];
    block.older = as_oldest ? kNowhere : pool.newest;
    block.newer = as_oldest ? pool.oldest : kNowhere;
    (block.older == kNowhere ? pool.oldest : pool.blocks[static_cast<size_t>(block.older)].newer) = index;
    (block.newer == kNowhere ? pool.newest : pool.blocks[static_cast<size_t>(block.newer)].older) = index;
    ++pool.available;
}

void KvBlocks::unlink(Pool& pool, int32_t index) {
    const Block& block = pool.blocks[static_cast<size_t>(index)];
    (block.older == kNowhere ? pool.oldest : pool.blocks[static_cast<size_t>(block.older)].newer) = block.newer;
    (block.newer == kNowhere ? pool.newest : pool.blocks[static_cast<size_t>(block.newer)].older) = block.older;
    --pool.available;
}

void KvBlocks::hold(size_t group, int32_t index) {
    if (block(group, index).refs++ == 0) unlink(pools_[group], index);
}

void KvBlocks::drop(size_t group, int32_t index) {
    Block& dropped = block(group, index);
    CHECK(dropped.refs > 0);
    if (--dropped.refs == 0) link(pools_[group], index, dropped.content == nullptr);
}

int32_t KvBlocks::take_oldest(size_t group) {
    const int32_t index = pools_[group].oldest;
    CHECK(index != kNowhere, "blocks are counted before they are taken");
    forget_content(group, index);
    hold(group, index);
    return index;
}

// ---- Contents

BlockContent* KvBlocks::find(const BlockContent& parent, std::span<const TokenId> tokens) {
    const auto found = contents_.find(View{parent.id, tokens});
    return found == contents_.end() ? nullptr : &found->second;
}

BlockContent& KvBlocks::find_or_add(BlockContent* parent, std::span<const TokenId> tokens) {
    const uint64_t parent_id = parent == nullptr ? 0 : parent->id;
    const auto found = contents_.find(View{parent_id, tokens});
    if (found != contents_.end()) return found->second;
    const auto added = contents_.emplace(Key{parent_id, {tokens.begin(), tokens.end()}}, BlockContent{}).first;
    BlockContent& content = added->second;
    content.id = ++last_id_;
    content.parent = parent;
    content.key = &added->first;
    content.block.fill(kNowhere);
    if (parent != nullptr) ++parent->children;
    return content;
}

// The empty beginning of everything with this salt.
BlockContent& KvBlocks::root(std::string_view salt) {
    const std::vector<TokenId> letters(salt.begin(), salt.end());
    return find_or_add(nullptr, letters);
}

// The block after `parent` that begins with most of `tokens`. In order of tokens it is a neighbour of where they would
// be.
BlockContent* KvBlocks::closest(const BlockContent& parent, std::span<const TokenId> tokens, int& common) {
    BlockContent* best = nullptr;
    common = 0;
    const auto consider = [&](auto at) {
        const std::vector<TokenId>& other = at->first.tokens;
        const auto parting = std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end()).first;
        if (const int same = static_cast<int>(parting - tokens.begin()); same > common) {
            common = same;
            best = &at->second;
        }
    };
    const auto after = contents_.lower_bound(View{parent.id, tokens});
    if (after != contents_.end() && after->first.parent == parent.id) consider(after);
    if (after != contents_.begin() && std::prev(after)->first.parent == parent.id) consider(std::prev(after));
    return best;
}

void KvBlocks::note(size_t group, int32_t index, BlockContent& content) {
    if (content.block[group] != kNowhere || block(group, index).content != nullptr) return;  // somebody was first
    content.block[group] = index;
    block(group, index).content = &content;
}

void KvBlocks::forget_content(size_t group, int32_t index) {
    BlockContent* const content = std::exchange(block(group, index).content, nullptr);
    if (content == nullptr) return;
    content->block[group] = kNowhere;
    remove_unused(content);
}

void KvBlocks::remove_unused(BlockContent* content) {
    while (content != nullptr && !content->used()) {
        BlockContent* const parent = content->parent;
        if (parent != nullptr) --parent->children;
        contents_.erase(contents_.find(*content->key));
        content = parent;
    }
}

void KvBlocks::pin(BlockTable& table, BlockContent* content) {
    BlockContent* const before = std::exchange(table.known, content);
    if (content != nullptr) ++content->pins;
    if (before == nullptr) return;
    --before->pins;
    remove_unused(before);
}

// ---- Prefixes

// The first block that a row at `positions` and those after it can see.
int KvBlocks::first_needed(size_t group, int positions) const {
    const int window = groups_[group].window;
    return window == 0 ? 0 : std::max(0, positions + 1 - window) / block_tokens_;
}

KvBlocks::Path KvBlocks::find_path(BlockContent& from, std::span<const TokenId> tokens) {
    Path path;
    const auto block_tokens = static_cast<size_t>(block_tokens_);
    const BlockContent* at = &from;
    while (tokens.size() >= block_tokens) {
        BlockContent* const next = find(*at, tokens.first(block_tokens));
        if (next == nullptr) break;
        path.full.push_back(next);
        tokens = tokens.subspan(block_tokens);
        at = next;
    }
    path.partial = closest(*at, tokens.first(std::min(block_tokens, tokens.size())), path.common);
    choose(path);
    return path;
}

// As many of the path's positions as every group still has blocks for.
void KvBlocks::choose(Path& path) const {
    std::vector<bool> possible(path.full.size() + 1, true);  // whether the first i blocks can be taken over
    bool partial = path.partial != nullptr;
    const int all = static_cast<int>(path.full.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
        int run = 0;  // blocks without a gap
        for (int i = 0; i <= all; ++i) {
            if (i > 0) run = path.full[static_cast<size_t>(i - 1)]->block[g] != kNowhere ? run + 1 : 0;
            if (run < i - first_needed(g, i * block_tokens_)) possible[static_cast<size_t>(i)] = false;
        }
        const int first = first_needed(g, all * block_tokens_ + path.common);
        if (partial) partial = path.partial->block[g] != kNowhere && run >= all - first;
    }
    if (!partial) path.partial = nullptr;
    if (partial) {
        path.positions = all * block_tokens_ + path.common;
        return;
    }
    while (!possible[path.full.size()]) path.full.pop_back();
    path.positions = static_cast<int>(path.full.size()) * block_tokens_;
}

void KvBlocks::take_nothing(BlockTable& table, std::string_view salt) {
    CHECK(table.known == nullptr, "a table begins empty");
    pin(table, &root(salt));
}

int KvBlocks::take_prefix(BlockTable& table, std::string_view salt, std::span<const TokenId> tokens) {
    CHECK(!tokens.empty());
    take_nothing(table, salt);
    const Path path = find_path(*table.known, tokens.first(tokens.size() - 1));
    for (size_t g = 0; g < groups_.size(); ++g) {
        BlockTable::Group& held = table.groups[g];
        held.first = first_needed(g, path.positions);
        held.blocks.assign(static_cast<size_t>(blocks_of(path.positions, block_tokens_)), 0);
        for (size_t i = static_cast<size_t>(held.first); i < held.blocks.size(); ++i) {
            const BlockContent& content = i < path.full.size() ? *path.full[i] : *path.partial;
            held.blocks[i] = content.block[g];
            hold(g, held.blocks[i]);
        }
    }
    table.full = static_cast<int>(path.full.size());
    if (!path.full.empty()) pin(table, path.full.back());
    return path.positions;
}

// ---- What a sequence does with its blocks

// Whether a block must stay as it is, of which the sequence keeps the first `kept` tokens and overwrites the rest.
bool KvBlocks::must_copy(size_t group, int32_t index, int kept) const {
    const Block& shared = pools_[group].blocks[static_cast<size_t>(index)];
    if (shared.refs - shared.copying > 1) return true;
    return shared.content != nullptr && static_cast<int>(shared.content->key->tokens.size()) > kept;
}

// Blocks that a table lacks before [written, end) can be written.
int KvBlocks::missing(const BlockTable& table, size_t group, int written, int end) const {
    const BlockTable::Group& held = table.groups[group];
    const int have = static_cast<int>(held.blocks.size());
    const int at = written / block_tokens_;
    const bool copy = at < have && must_copy(group, held.blocks[static_cast<size_t>(at)], written % block_tokens_);
    return std::max(0, blocks_of(end, block_tokens_) - have) + (copy ? 1 : 0);
}

// Makes the block at `written` one that only this table reads and whose content nobody looks for.
void KvBlocks::own(BlockTable& table, size_t group, int written) {
    const auto at = static_cast<size_t>(written / block_tokens_);
    BlockTable::Group& held = table.groups[group];
    if (at >= held.blocks.size()) return;
    const int32_t before = held.blocks[at];
    if (!must_copy(group, before, written % block_tokens_)) {
        forget_content(group, before);
        return;
    }
    held.blocks[at] = take_oldest(group);
    copies_.push_back({.group = static_cast<int>(group), .from = before, .to = held.blocks[at]});
    ++block(group, before).copying;  // dropped when it has been copied
}

bool KvBlocks::grow(BlockTable& table, int written, int end) {
    CHECK(table.known != nullptr && written <= end);
    for (size_t g = 0; g < groups_.size(); ++g) {
        if (missing(table, g, written, end) > pools_[g].available) return false;
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
        own(table, g, written);
        std::vector<int32_t>& blocks = table.groups[g].blocks;
        const auto wanted = static_cast<size_t>(blocks_of(end, block_tokens_));
        while (blocks.size() < wanted) blocks.push_back(take_oldest(g));
    }
    return true;
}

bool KvBlocks::has_room(const BlockTable& table, int end, int rows, int spare) const {
    for (size_t g = 0; g < groups_.size(); ++g) {
        const BlockTable::Group& held = table.groups[g];
        int most = blocks_of(end, block_tokens_) - static_cast<int>(held.blocks.size());
        if (groups_[g].window > 0) {
            const int live = blocks_of(groups_[g].window + rows, block_tokens_) + 1;
            most = std::min(most, live - (static_cast<int>(held.blocks.size()) - held.first));
        }
        if (std::max(0, most) + 1 + spare > pools_[g].available) return false;  // one more: a shared block's copy
    }
    return true;
}

void KvBlocks::settle(BlockTable& table, std::span<const TokenId> tokens, int computed) {
    const auto block_tokens = static_cast<size_t>(block_tokens_);
    for (; (table.full + 1) * block_tokens_ <= computed; ++table.full) {
        const auto at = static_cast<size_t>(table.full);
        BlockContent& content = find_or_add(table.known, tokens.subspan(at * block_tokens, block_tokens));
        for (size_t g = 0; g < groups_.size(); ++g) {
            const BlockTable::Group& held = table.groups[g];
            if (table.full >= held.first) note(g, held.blocks[at], content);
        }
        pin(table, &content);
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
        BlockTable::Group& held = table.groups[g];
        for (const int needed = first_needed(g, computed); held.first < needed; ++held.first)
            drop(g, held.blocks[static_cast<size_t>(held.first)]);
    }
}

BlockTable KvBlocks::fork(const BlockTable& table, int computed) {
    BlockTable other;
    other.full = table.full;
    pin(other, table.known);
    for (size_t g = 0; g < groups_.size(); ++g) {
        BlockTable::Group& held = other.groups[g];
        held = table.groups[g];
        held.blocks.resize(static_cast<size_t>(blocks_of(computed, block_tokens_)));
        for (size_t i = static_cast<size_t>(held.first); i < held.blocks.size(); ++i) hold(g, held.blocks[i]);
    }
    return other;
}

// A copy that was not made yet is not needed any more: the table has the shared block again.
void KvBlocks::take_back_copies(BlockTable& table, int computed) {
    const auto at = static_cast<size_t>(computed / block_tokens_);
    std::erase_if(copies_, [&](const BlockCopy& copy) {
        const auto group = static_cast<size_t>(copy.group);
        std::vector<int32_t>& blocks = table.groups[group].blocks;
        if (at >= blocks.size() || blocks[at] != copy.to) return false;
        blocks[at] = copy.from;
        --block(group, copy.from).copying;
        drop(group, copy.to);
        return true;
    });
}

void KvBlocks::release(BlockTable& table, std::span<const TokenId> tokens, int computed) {
    if (table.known == nullptr) return;
    take_back_copies(table, computed);
    settle(table, tokens, computed);
    const auto at = static_cast<size_t>(table.full);
    const auto rest = static_cast<size_t>(computed % block_tokens_);
    for (size_t g = 0; g < groups_.size() && rest > 0; ++g) {
        const int32_t last = table.groups[g].blocks[at];
        if (block(g, last).refs > 1 || block(g, last).content != nullptr) continue;
        const auto partial = tokens.subspan(at * static_cast<size_t>(block_tokens_), rest);
        note(g, last, find_or_add(table.known, partial));
    }
    // From the end, so that a block grows old before those that lead to it.
    for (size_t g = 0; g < groups_.size(); ++g) {
        const BlockTable::Group& held = table.groups[g];
        for (size_t i = held.blocks.size(); i > static_cast<size_t>(held.first); --i) drop(g, held.blocks[i - 1]);
    }
    pin(table, nullptr);
    table = {};
}

void KvBlocks::forget() {
    copied();
    for (size_t g = 0; g < groups_.size(); ++g) {
        CHECK(pools_[g].available == groups_[g].blocks, "blocks of a lost device are still held");
        for (int32_t i = 0; i < groups_[g].blocks; ++i) forget_content(g, i);
    }
}

void KvBlocks::copied() {
    for (const BlockCopy& copy : copies_) {
        const auto group = static_cast<size_t>(copy.group);
        --block(group, copy.from).copying;
        drop(group, copy.from);
    }
    copies_.clear();
}

double KvBlocks::usage() const {
    double most = 0;
    for (size_t g = 0; g < groups_.size(); ++g)
        most = std::max(most, 1.0 - static_cast<double>(pools_[g].available) / std::max(1, groups_[g].blocks));
    return most;
}

// ---- For tests

std::string KvBlocks::audit(std::span<const BlockTable* const> tables) const {
    for (size_t g = 0; g < groups_.size(); ++g) {
        std::vector<int> refs(pools_[g].blocks.size());
        for (const BlockTable* table : tables) {
            const BlockTable::Group& held = table->groups[g];
            for (size_t i = static_cast<size_t>(held.first); i < held.blocks.size(); ++i)
                ++refs[static_cast<size_t>(held.blocks[i])];
        }
        int unheld = 0;
        for (size_t i = 0; i < refs.size(); ++i) {
            const Block& block = pools_[g].blocks[i];
            if (block.refs - block.copying != refs[i])
                return fmt::format("block {} of group {} counts {} holders, not {}", i, g, block.refs, refs[i]);
            if (block.content != nullptr && block.content->block[g] != static_cast<int32_t>(i))
                return fmt::format("block {} of group {} has a content that lies elsewhere", i, g);
            if (block.refs == 0) ++unheld;
        }
        int linked = 0;
        for (int32_t i = pools_[g].oldest; i != kNowhere; i = pools_[g].blocks[static_cast<size_t>(i)].newer) ++linked;
        if (linked != unheld || linked != pools_[g].available)
            return fmt::format("group {} lists {} blocks as free and counts {}, but {} are", g, linked,
                               pools_[g].available, unheld);
    }
    for (const auto& [key, content] : contents_) {
        if (!content.used()) return fmt::format("content {} is of no use", content.id);
    }
    return {};
}

}  // namespace tandem::engine
