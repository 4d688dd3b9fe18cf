#include "text/grammar/token_masks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "text/grammar/limits.h"

namespace tandem::text {

using grammar::CallGraph;
using grammar::CallId;
using grammar::Item;
using grammar::LocalStates;

namespace {

constexpr size_t kFewNodes = 4'096;
constexpr size_t kMaxSparse = 512;       // tokens: more are kept as bits
constexpr size_t kMaxParts = 8;          // of a mask: more are made one
constexpr size_t kMaxWork = 64'000'000;  // nodes of the trie tried for one mask

void set_bit(std::span<uint32_t> bits, TokenId id) {
    bits[static_cast<size_t>(id) / 32] |= 1U << (static_cast<size_t>(id) % 32);
}

// In pieces that compilers make vectors of.
void add_bits(std::span<uint32_t> to, std::span<const uint32_t> bits) {
    constexpr size_t kWords = 16;
    size_t at = 0;
    for (; at + kWords <= bits.size(); at += kWords) {
        std::array<uint32_t, kWords> piece;
        std::memcpy(piece.data(), &to[at], sizeof(piece));
        for (size_t i = 0; i < kWords; ++i) piece[i] |= bits[at + i];
        std::memcpy(&to[at], piece.data(), sizeof(piece));
    }
    for (; at < bits.size(); ++at) to[at] |= bits[at];
}

// Whether the nodes from `begin` to before `end` are the bytes of one character but its last, which is at `end`.
bool are_inside_character(std::span<const TokenTrie::Node> nodes, uint32_t begin, uint32_t end) {
    if (end - begin > 3 || nodes[begin].byte < 0xC0) return false;
    for (uint32_t i = begin + 1; i <= end; ++i) {
        const bool goes_on = nodes[i].depth == nodes[i - 1].depth + 1 && (nodes[i].byte & 0xC0U) == 0x80;
        if (!goes_on) return false;
    }
    return true;
}

// What a mask is made of: a state, or one that goes on where others have ended.
enum class Made : char32_t { of_state, of_plain_text, of_exits };

std::u32string key(Made made, LocalStates::Id state) {
    return {static_cast<char32_t>(made), static_cast<char32_t>(state)};
}

}  // namespace

size_t TokenMasks::Mask::bytes() const {
    return sizeof(Mask) + (bits.size() + tokens.size()) * sizeof(uint32_t) + exits.size() * sizeof(Exits);
}

TokenMasks::TokenMasks(CompiledGrammarPtr compiled, std::shared_ptr<const TokenTrie> trie)
    : compiled_(std::move(compiled)),
      trie_(std::move(trie)),
      machine_(compiled_->automaton()),
      locals_(compiled_->automaton(), trie_->longest()),
      path_(trie_->longest() + 1) {}

size_t TokenMasks::kept_bytes() const {
    const std::lock_guard lock(mutex_);
    return mask_bytes_;
}

bool TokenMasks::is_too_much() const {
    return work_ > kMaxWork || locals_.overflow() || mask_bytes_ > 2 * grammar::kMaxMaskBytes;
}

// ---- Masks

std::shared_ptr<TokenMasks::Mask> TokenMasks::new_mask() const {
    auto mask = std::make_shared<Mask>();
    mask->number = masks_made_++;
    return mask;
}

TokenMasks::MaskPtr TokenMasks::keep(std::u32string key, std::shared_ptr<Mask> mask) const {
    mask->tokens.shrink_to_fit();
    mask->exits.shrink_to_fit();
    mask_bytes_ += mask->bytes() + key.size() * sizeof(char32_t);
    masks_.emplace(std::move(key), mask);
    return mask;
}

void TokenMasks::allow(Mask& mask, std::span<const TokenId> ids) const {
    if (mask.bits.empty() && mask.tokens.size() + ids.size() <= kMaxSparse) {
        mask.tokens.insert(mask.tokens.end(), ids.begin(), ids.end());
        return;
    }
    if (mask.bits.empty()) {
        mask.bits.resize(trie_->mask_words());
        for (const TokenId id : mask.tokens) set_bit(mask.bits, id);
        mask.tokens = {};
    }
    for (const TokenId id : ids) set_bit(mask.bits, id);
}

void TokenMasks::add_to(std::span<uint32_t> allowed, const Mask& mask) const {
    if (mask.plain > 0) add_bits(allowed, trie_->plain_tokens(mask.plain));
    add_bits(allowed, mask.bits);
    for (const TokenId id : mask.tokens) set_bit(allowed, id);
}

TokenMasks::MaskPtr TokenMasks::one_mask(const std::vector<MaskPtr>& parts) const {
    const auto whole = new_mask();
    whole->bits.resize(trie_->mask_words());
    for (const MaskPtr& part : parts) add_to(whole->bits, *part);
    mask_bytes_ += whole->bytes();
    return whole;
}

void TokenMasks::walk(uint32_t from, LocalId state, Mask& mask) const {
    const auto nodes = trie_->nodes();
    const uint32_t end = nodes[from].end;
    path_[nodes[from].depth] = state;
    uint32_t at = from + 1;
    size_t tried = 0;
    while (at < end) {
        const TokenTrie::Node& node = nodes[at];
        const LocalId next = locals_.next(path_[node.depth - 1U], node.byte);
        ++tried;
        if (next == LocalStates::kDead) {
            at = node.end;
            continue;
        }
        // All below at once where that makes no difference: most of a vocabulary is plain text.
        const bool all =
            node.plain_below != TokenTrie::kNotPlain && node.end > at + 1 && node.plain_below <= locals_.room(next);
        allow(mask, trie_->tokens(at, all ? node.end : at + 1));
        if (locals_.exits(next) && node.end > at + 1) {
            const uint32_t last = all ? node.end : at + 1;
            const uint32_t before = mask.exits.empty() ? 0 : mask.exits.back().last;
            if (before > 0 && (before == at || are_inside_character(nodes, before, at)))
                mask.exits.back().last = last;
            else
                mask.exits.push_back({at, last});
        }
        path_[node.depth] = next;
        at = all || locals_.is_final(next) ? node.end : at + 1;
    }
    work_ += tried;
}

// Tokens of plain text are not tried where each of their characters makes no difference; nor are those that are too
// long, if nothing but a caller can go on with them.
TokenMasks::MaskPtr TokenMasks::mask_of(const Item& item) const {
    const LocalId state = locals_.start(item);
    std::u32string made_of = key(Made::of_state, state);
    if (const auto known = masks_.find(made_of); known != masks_.end()) return known->second;
    const auto mask = new_mask();
    walk(0, state, *mask);
    const LocalStates::Reach reach = locals_.reach(state, trie_->most_plain());
    mask->plain = reach.characters;
    if (reach.characters < trie_->most_plain()) {
        if (locals_.takes_plain(reach.state))
            walk(trie_->plain_root(), state, *mask);
        else if (reach.characters > 0)
            mask->unwalked = state;
    }
    if (mask->plain > 0 && !mask->bits.empty())
        add_bits(mask->bits, trie_->plain_tokens(std::exchange(mask->plain, 0)));
    return keep(std::move(made_of), mask);
}

// ---- Rules that end within tokens

// Where callers go on at the end of a call, also those that the end of a caller's own rule leads to.
std::vector<Item> TokenMasks::continuations(const CallGraph& graph, CallId call) const {
    if (call == 0) return {};
    std::vector<CallId> ended = {call};
    std::vector<Item> found;
    for (size_t i = 0; i < ended.size(); ++i) {
        for (const Item& caller : graph.callers(ended[i])) {
            if (!machine_.is_done(caller)) found.push_back(caller);
            const bool ends_too = machine_.accepts(caller) && caller.call != 0;
            if (ends_too && std::find(ended.begin(), ended.end(), caller.call) == ended.end())
                ended.push_back(caller.call);
        }
    }
    work_ += found.size() + ended.size();
    return found;
}

std::vector<uint32_t> TokenMasks::entries(std::vector<Exits> exits, LocalId state) const {
    if (!std::is_sorted(exits.begin(), exits.end())) std::sort(exits.begin(), exits.end());
    std::vector<uint32_t> nodes;
    size_t count = 0;
    for (const Exits& some : exits) count += some.last - some.first;
    if (count <= kFewNodes) {
        nodes.reserve(count);
        for (const Exits& some : exits) {
            for (uint32_t node = some.first; node < some.last; ++node) nodes.push_back(node);
        }
    } else {  // fewer nodes go on with the bytes that the state begins with
        uint32_t end = 0;
        for (Exits& some : exits) end = some.last = std::max(some.last, end);
        for (int byte = 0; byte < 256; ++byte) {
            if (locals_.next(state, static_cast<uint8_t>(byte)) == LocalStates::kDead) continue;
            for (const uint32_t node : trie_->nodes_before(static_cast<uint8_t>(byte))) {
                const auto after = std::upper_bound(exits.begin(), exits.end(), Exits{node, UINT32_MAX});
                if (after != exits.begin() && node < std::prev(after)->last) nodes.push_back(node);
            }
        }
        std::sort(nodes.begin(), nodes.end());
    }
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
}

TokenMasks::MaskPtr TokenMasks::plain_exits(LocalId unwalked) const {
    std::u32string made_of = key(Made::of_plain_text, unwalked);
    if (const auto known = masks_.find(made_of); known != masks_.end()) return known->second;
    const auto mask = new_mask();
    walk(trie_->plain_root(), unwalked, *mask);
    return keep(std::move(made_of), mask);
}

TokenMasks::MaskPtr TokenMasks::follow(std::vector<MaskPtr> sources, LocalId state) const {
    const auto by_number = [](const MaskPtr& a, const MaskPtr& b) { return a->number < b->number; };
    std::sort(sources.begin(), sources.end(), by_number);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    std::u32string made_of = key(Made::of_exits, state);
    for (const MaskPtr& source : sources) made_of += static_cast<char32_t>(source->number);
    if (const auto known = masks_.find(made_of); known != masks_.end()) return known->second;
    const bool takes_plain = locals_.takes_plain(state);
    std::vector<Exits> exits;
    for (const MaskPtr& source : sources) {
        exits.insert(exits.end(), source->exits.begin(), source->exits.end());
        if (!takes_plain || source->unwalked == LocalStates::kDead) continue;
        const MaskPtr more = plain_exits(source->unwalked);
        exits.insert(exits.end(), more->exits.begin(), more->exits.end());
    }
    const auto mask = new_mask();
    for (const uint32_t node : entries(std::move(exits), state)) walk(node, state, *mask);
    return keep(std::move(made_of), mask);
}

// Goes on with the callers where rules have ended within tokens; in rounds, each deeper in the trie, so that readings
// that meet again are followed once.
bool TokenMasks::resolve(const CallGraph& graph, Ended ended, std::vector<MaskPtr>& found) const {
    while (!ended.empty()) {
        std::map<Item, std::vector<MaskPtr>> going_on;
        for (const auto& [call, masks] : ended) {
            for (const Item& item : continuations(graph, call)) {
                auto& at = going_on[item];
                at.insert(at.end(), masks.begin(), masks.end());
            }
        }
        ended.clear();
        for (auto& [item, sources] : going_on) {
            const MaskPtr mask = follow(std::move(sources), locals_.start(item));
            if (is_too_much()) return false;
            found.push_back(mask);
            if (item.call != 0 && !mask->exits.empty()) ended[item.call].push_back(mask);
        }
    }
    return true;
}

bool TokenMasks::find(const CallGraph& graph, std::span<const Item> items, std::vector<MaskPtr>& found) const {
    work_ = 0;
    Ended ended;
    for (const Item& item : items) {
        if (machine_.is_done(item)) continue;
        found.push_back(mask_of(item));
        const Mask& mask = *found.back();
        const bool ends = !mask.exits.empty() || mask.unwalked != LocalStates::kDead;
        if (item.call != 0 && ends) ended[item.call].push_back(found.back());
        if (is_too_much()) return false;
    }
    return resolve(graph, std::move(ended), found);
}

bool TokenMasks::fill(const CallGraph& graph, std::span<const Item> items, std::span<uint32_t> allowed) const {
    const std::lock_guard lock(mutex_);
    if (mask_bytes_ > grammar::kMaxMaskBytes || locals_.size() > grammar::kMaxLocalStates / 2 || locals_.overflow()) {
        locals_.clear();
        masks_.clear();
        whole_.clear();
        mask_bytes_ = 0;
    }
    std::u32string read = locals_.key_of(graph, items);
    auto whole = whole_.find(read);
    if (whole == whole_.end()) {
        std::vector<MaskPtr> found;
        if (!find(graph, items, found)) return false;
        std::erase_if(
            found, [](const MaskPtr& part) { return part->plain == 0 && part->bits.empty() && part->tokens.empty(); });
        if (found.size() > kMaxParts) found = {one_mask(found)};
        mask_bytes_ += read.size() * sizeof(char32_t) + found.size() * sizeof(MaskPtr);
        whole = whole_.emplace(std::move(read), std::move(found)).first;
    }
    for (const MaskPtr& part : whole->second) add_to(allowed, *part);
    return true;
}

}  // namespace tandem::text
