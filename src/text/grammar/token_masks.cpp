#include "text/grammar/token_masks.h"

#include <algorithm>
#include <bit>

#include "text/grammar/limits.h"

namespace tandem::text {

using grammar::CallGraph;
using grammar::CallId;
using grammar::Item;
using grammar::LocalStates;

namespace {

constexpr size_t kMaxKeptExits = 65'536;
constexpr size_t kFewNodes = 4'096;
constexpr size_t kMaxSparse = 512;       // tokens: more are kept as bits
constexpr size_t kMaxWork = 64'000'000;  // nodes of the trie tried for one mask

void set_bit(std::span<uint32_t> bits, TokenId id) {
    bits[static_cast<size_t>(id) / 32] |= 1U << (static_cast<size_t>(id) % 32);
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

template <typename Allow>
void TokenMasks::walk(uint32_t from, LocalId state, std::vector<Exits>& exits, Allow allow) const {
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
        for (const TokenId id : trie_->tokens(at, all ? node.end : at + 1)) allow(id);
        if (locals_.exits(next) && node.end > at + 1) exits.push_back({at, all ? node.end : at + 1});
        path_[node.depth] = next;
        at = all || locals_.is_final(next) ? node.end : at + 1;
    }
    work_ += tried;
}

std::shared_ptr<const TokenMasks::Mask> TokenMasks::mask_of(const Item& item) const {
    const LocalId state = locals_.start(item);
    const auto known = masks_.find(state);
    if (known != masks_.end()) return known->second;
    const auto mask = std::make_shared<Mask>();
    walk(0, state, mask->exits, [&](TokenId id) {
        if (mask->bits.empty() && mask->tokens.size() < kMaxSparse) return mask->tokens.push_back(id);
        if (mask->bits.empty()) {
            mask->bits.resize(trie_->mask_words());
            for (const TokenId token : mask->tokens) set_bit(mask->bits, token);
            mask->tokens.clear();
        }
        set_bit(mask->bits, id);
    });
    mask->tokens.shrink_to_fit();
    mask->exits.shrink_to_fit();
    // Where a rule may end after any character, what is worth keeping is the whole mask.
    if (mask->exits.size() <= kMaxKeptExits) {
        masks_.emplace(state, mask);
        mask_bytes_ += mask->bytes();
    }
    return mask;
}

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
    if (count <= kFewNodes && count == exits.size()) {
        for (const Exits& one : exits) nodes.push_back(one.first);
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

// Goes on with the callers where rules have ended within tokens; in rounds, each deeper in the trie, so that readings
// that meet again are followed once.
void TokenMasks::resolve(const CallGraph& graph, Ended ended, std::span<uint32_t> allowed) const {
    while (!ended.empty()) {
        std::map<Item, std::vector<Exits>> going_on;
        for (auto& [call, exits] : ended) {
            for (const Item& item : continuations(graph, call)) {
                auto& at = going_on[item];
                at.insert(at.end(), exits.begin(), exits.end());
            }
        }
        ended.clear();
        for (auto& [item, exits] : going_on) {
            const LocalId state = locals_.start(item);
            std::vector<Exits> further;
            for (const uint32_t node : entries(std::move(exits), state))
                walk(node, state, further, [&](TokenId id) { set_bit(allowed, id); });
            if (work_ > kMaxWork || locals_.overflow()) return;
            auto& at = ended[item.call];
            at.insert(at.end(), further.begin(), further.end());
        }
        std::erase_if(ended, [](const auto& exits) { return exits.first == 0 || exits.second.empty(); });
    }
}

void TokenMasks::keep(std::u32string key, std::span<const uint32_t> allowed) const {
    const size_t words = trie_->mask_words();
    size_t count = 0;
    for (const uint32_t word : allowed.first(words)) count += static_cast<size_t>(std::popcount(word));
    Mask mask;
    if (count > kMaxSparse) {
        mask.bits.assign(allowed.begin(), allowed.begin() + static_cast<ptrdiff_t>(words));
    } else {
        mask.tokens.reserve(count);
        for (size_t i = 0; i < words; ++i) {
            for (uint32_t word = allowed[i]; word != 0; word &= word - 1)
                mask.tokens.push_back(static_cast<TokenId>(i * 32 + static_cast<size_t>(std::countr_zero(word))));
        }
    }
    mask_bytes_ += mask.bytes() + key.size() * sizeof(char32_t);
    whole_.emplace(std::move(key), std::move(mask));
}

bool TokenMasks::fill(const CallGraph& graph, std::span<const Item> items, std::span<uint32_t> allowed) const {
    const std::lock_guard lock(mutex_);
    if (mask_bytes_ > grammar::kMaxMaskBytes || locals_.size() > grammar::kMaxLocalStates / 2 || locals_.overflow()) {
        locals_.clear();
        masks_.clear();
        whole_.clear();
        mask_bytes_ = 0;
    }
    std::u32string key = locals_.key_of(graph, items);
    if (const auto known = whole_.find(key); known != whole_.end()) {
        std::copy(known->second.bits.begin(), known->second.bits.end(), allowed.begin());
        for (const TokenId id : known->second.tokens) set_bit(allowed, id);
        return true;
    }
    if (!find(graph, items, allowed)) return false;
    keep(std::move(key), allowed);
    return true;
}

bool TokenMasks::find(const CallGraph& graph, std::span<const Item> items, std::span<uint32_t> allowed) const {
    work_ = 0;
    Ended ended;
    for (const Item& item : items) {
        if (machine_.is_done(item)) continue;
        const auto mask = mask_of(item);
        for (size_t i = 0; i < mask->bits.size(); ++i) allowed[i] |= mask->bits[i];
        for (const TokenId id : mask->tokens) set_bit(allowed, id);
        if (item.call != 0 && !mask->exits.empty()) {
            auto& at = ended[item.call];
            at.insert(at.end(), mask->exits.begin(), mask->exits.end());
        }
        if (locals_.overflow() || work_ > kMaxWork) return false;
    }
    resolve(graph, std::move(ended), allowed);
    return !locals_.overflow() && work_ <= kMaxWork;
}

}  // namespace tandem::text
