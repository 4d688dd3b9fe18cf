#include "text/grammar/matcher.h"

#include <algorithm>

namespace tandem::text {

using grammar::CallId;
using grammar::Item;
using grammar::Machine;

GrammarMatcher::GrammarMatcher(std::shared_ptr<const TokenMasks> masks)
    : masks_(std::move(masks)), machine_(masks_->automaton()) {
    const Machine::Outcome outcome = machine_.start(graph_, items_);
    positions_.push_back({.calls = graph_.calls(), .first_new = 1, .may_end = outcome.root_ends});
}

std::span<const Item> GrammarMatcher::items() const {
    return std::span(items_).subspan(positions_.back().items_begin);
}

bool GrammarMatcher::accept(TokenId id) {
    if (finished_) return false;
    if (masks_->trie().is_stop(id)) {
        if (!may_end()) return false;
        positions_.push_back(positions_.back());
        finished_ = true;
        return true;
    }
    const std::string_view bytes = masks_->trie().bytes(id);
    if (bytes.empty()) return false;
    std::vector<Item> before(items().begin(), items().end());
    std::vector<Item> after;
    const size_t calls = graph_.calls();
    Position position;
    for (const char byte : bytes) {
        position.first_new = static_cast<CallId>(graph_.calls());
        const Machine::Outcome outcome = machine_.step(graph_, before, static_cast<uint8_t>(byte), after);
        if (after.empty() || outcome.overflow) {
            graph_.truncate(calls);
            return false;
        }
        position.may_end = outcome.root_ends;
        std::swap(before, after);
    }
    position.items_begin = items_.size();
    position.calls = graph_.calls();
    items_.insert(items_.end(), before.begin(), before.end());
    positions_.push_back(position);
    return true;
}

void GrammarMatcher::rollback(size_t tokens) {
    CHECK(tokens <= accepted());
    if (tokens == 0) return;
    if (finished_) {  // the stop token added no items
        finished_ = false;
        positions_.pop_back();
        return rollback(tokens - 1);
    }
    items_.resize(positions_[positions_.size() - tokens].items_begin);
    positions_.resize(positions_.size() - tokens);
    graph_.truncate(positions_.back().calls);
}

Status GrammarMatcher::fill_mask(std::span<uint32_t> allowed) const {
    const size_t words = masks_->trie().mask_words();
    CHECK(allowed.size() >= words);
    std::fill(allowed.begin(), allowed.end(), 0U);
    if (finished_) return fail("the answer has ended already");
    std::vector<Item> met;  // the calls made here follow from these
    for (const Item& item : items()) {
        if (item.call < positions_.back().first_new) met.push_back(item);
    }
    if (!masks_->fill(graph_, met, allowed)) {
        return fail("the grammar has too many readings of the text so far: make its rules less ambiguous");
    }
    if (may_end()) {
        for (const TokenId id : masks_->trie().stop_tokens()) {
            if (masks_->trie().contains(id))
                allowed[static_cast<size_t>(id) / 32] |= 1U << (static_cast<size_t>(id) % 32);
        }
    }
    if (std::all_of(allowed.begin(), allowed.end(), [](uint32_t word) { return word == 0; })) {
        return fail("no token of the model can go on as the grammar demands");
    }
    return Ok{};
}

}  // namespace tandem::text
