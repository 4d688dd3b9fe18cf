#include "text/grammar/local_states.h"

#include <algorithm>

#include "text/grammar/limits.h"

namespace tandem::text::grammar {

namespace {

void append(std::u32string& key, const Item& item, CallId call) {
    key += static_cast<char32_t>(item.state);
    key += static_cast<char32_t>(item.count);
    key += static_cast<char32_t>(call);
}

// Gives calls new numbers in the order in which they are met; call 0 keeps its own.
class Renumbering {
  public:
    CallId operator()(CallId call) {
        if (call == 0) return 0;
        const auto known = std::find(met_.begin(), met_.end(), call) - met_.begin();
        if (known == std::ssize(met_)) met_.push_back(call);
        return static_cast<CallId>(known) + 1;
    }
    const std::vector<CallId>& met() const { return met_; }

  private:
    std::vector<CallId> met_;
};

}  // namespace

LocalStates::LocalStates(const Automaton& automaton, size_t horizon)
    : automaton_(automaton), horizon_(horizon), machine_(automaton) {
    clear();
}

void LocalStates::clear() {
    next_.clear();
    flags_.clear();
    keys_.clear();
    ids_.clear();
    overflow_ = false;
    loaded_ = kUnknown;
    const Id dead = intern(graph_, {}, 1, false);
    CHECK(dead == kDead);
}

// The key has the items that a byte or the end of a call led to; the others follow from them.
LocalStates::Id LocalStates::intern(const CallGraph& graph, std::span<const Item> items, CallId first_new, bool exits) {
    std::vector<Item> kept;
    kept.reserve(items.size());
    for (const Item& item : items) {
        if (item.call < first_new && !machine_.is_done(item)) kept.push_back(clamp(item));
    }
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    std::u32string key = {static_cast<char32_t>(exits), static_cast<char32_t>(kept.size())};
    Renumbering calls;
    for (const Item& item : kept) append(key, item, calls(item.call));
    for (size_t i = 0; i < calls.met().size(); ++i) {  // grows meanwhile
        const auto callers = graph.callers(calls.met()[i]);
        key += static_cast<char32_t>(callers.size());
        for (const Item& caller : callers) append(key, clamp(caller), calls(caller.call));
    }
    const auto [known, is_new] = ids_.try_emplace(std::move(key), static_cast<Id>(flags_.size()));
    if (!is_new) return known->second;
    if (flags_.size() >= kMaxLocalStates) {
        overflow_ = true;
        ids_.erase(known);
        return kDead;
    }
    keys_.push_back(&known->first);
    flags_.push_back({.exits = exits, .is_final = kept.empty()});
    next_.resize(next_.size() + 256, kept.empty() ? kDead : kUnknown);
    return known->second;
}

std::u32string LocalStates::key_of(const CallGraph& graph, std::span<const Item> items) const {
    std::u32string key = {static_cast<char32_t>(items.size())};
    Renumbering calls;
    for (const Item& item : items) append(key, clamp(item), calls(item.call));
    for (size_t i = 0; i < calls.met().size(); ++i) {  // grows meanwhile
        const auto callers = graph.callers(calls.met()[i]);
        key += static_cast<char32_t>(callers.size());
        for (const Item& caller : callers) append(key, clamp(caller), calls(caller.call));
    }
    return key;
}

Item LocalStates::clamp(Item item) const {
    const State& state = automaton_.state(item.state);
    if (state.loop == State::kNoLoop) return item;
    const Loop& loop = automaton_.loop(state);
    // A body matches at least one byte.
    if (item.count < loop.min) {
        if (loop.min - item.count > horizon_) item.count = static_cast<uint32_t>(loop.min - horizon_ - 1);
    } else if (loop.max - item.count > horizon_) {
        item.count = loop.min;
    }
    return item;
}

LocalStates::Id LocalStates::start(const Item& item) {
    Item local = clamp(item);
    local.call = 0;
    graph_.truncate(1);
    loaded_ = kUnknown;
    items_.assign(1, local);
    const Machine::Outcome outcome = machine_.close(graph_, items_);
    if (outcome.overflow) overflow_ = true;
    return intern(graph_, items_, 1, outcome.root_ends);
}

void LocalStates::load(Id state) {
    if (loaded_ == state) return graph_.truncate(loaded_calls_);
    graph_.truncate(1);
    const std::u32string& key = *keys_[state];
    size_t at = 1;
    const auto read_items = [&](std::vector<Item>& items) {
        items.resize(key[at++]);
        for (Item& item : items) {
            item = {.state = key[at], .count = key[at + 1], .call = key[at + 2]};
            at += 3;
        }
    };
    read_items(items_);
    while (at < key.size()) {
        read_items(after_);
        graph_.add_call(after_);
    }
    if (machine_.close(graph_, items_).overflow) overflow_ = true;
    loaded_ = state;
    loaded_calls_ = graph_.calls();
}

LocalStates::Id LocalStates::make_next(Id state, uint8_t byte) {
    if (overflow_) return kDead;
    load(state);
    // The bytes around it that take the same edges lead to the same state.
    int first = 0;
    int last = 255;
    for (const Item& item : items_) {
        for (const ByteEdge& edge : automaton_.edges(automaton_.state(item.state))) {
            if (edge.last < byte) {
                first = std::max(first, edge.last + 1);
            } else if (edge.first > byte) {
                last = std::min(last, edge.first - 1);
                break;
            } else {
                first = std::max<int>(first, edge.first);
                last = std::min<int>(last, edge.last);
            }
        }
    }
    const auto first_new = static_cast<CallId>(graph_.calls());
    const Machine::Outcome outcome = machine_.step(graph_, items_, byte, after_);
    if (outcome.overflow) overflow_ = true;
    const Id target = intern(graph_, after_, first_new, outcome.root_ends);
    if (overflow_) return kDead;
    const auto row = next_.begin() + static_cast<ptrdiff_t>(state) * 256;
    std::fill(row + first, row + last + 1, target);
    return target;
}

// The state that all such bytes lead to; kDead if there is no single one.
LocalStates::Id LocalStates::after_any(Id state, std::span<const ByteRange> bytes) {
    if (bytes.empty()) return state;
    Id last = kUnknown;
    Id found = kUnknown;
    for (int byte = bytes.front().first; byte <= bytes.front().last; ++byte) {
        const Id to = next(state, static_cast<uint8_t>(byte));
        if (to == last) continue;
        last = to;
        const Id after = after_any(to, bytes.subspan(1));
        if (after == kDead || (found != kUnknown && after != found)) return kDead;
        found = after;
    }
    return found;
}

// Nothing but a loop whose body is any one character of plain text, and no more: only the count changes.
bool LocalStates::counts_plain(Id state) {
    constexpr size_t kOneItem = 5;  // of a key: whether it exits, how many items, and one
    const std::u32string& key = *keys_[state];
    if (key.size() != kOneItem || key[4] != 0) return false;
    const State& only = automaton_.state(key[2]);
    if (only.loop == State::kNoLoop) return false;
    const Id body = start({.state = automaton_.start(automaton_.loop(only).body), .count = 0, .call = 0});
    const Id after = body == state ? kDead : after_plain(body);
    return after != kDead && flags_[after].exits && flags_[after].is_final;
}

LocalStates::Id LocalStates::find_after_plain(Id state) {
    if (counts_plain(state)) return next(state, 'a');
    Id found = kUnknown;
    for (const ByteSequence& sequence : plain_text()) {
        const Id to = after_any(state, std::span(sequence.bytes).first(static_cast<size_t>(sequence.length)));
        if (to == kDead || (found != kUnknown && to != found)) return kDead;
        found = to;
    }
    return found;
}

LocalStates::Id LocalStates::after_plain(Id state) {
    if (flags_[state].after_plain == kUnknown) {
        flags_[state].after_plain = kDead;  // while it is looked for: a loop may be its own body
        const Id after = find_after_plain(state);
        flags_[state].after_plain = after;
    }
    return flags_[state].after_plain;
}

LocalStates::Reach LocalStates::reach(Id state, uint32_t most) {
    Reach found{.characters = 0, .state = state};
    while (found.characters < most) {
        const Id after = after_plain(found.state);
        if (after == kDead) break;
        found.characters = after == found.state ? most : found.characters + 1;
        found.state = after;
    }
    return found;
}

bool LocalStates::takes_plain(Id state) {
    for (const ByteSequence& sequence : plain_text()) {
        for (int byte = sequence.bytes[0].first; byte <= sequence.bytes[0].last; ++byte) {
            if (next(state, static_cast<uint8_t>(byte)) != kDead) return true;
        }
    }
    return false;
}

uint32_t LocalStates::find_room(Id state) {
    std::vector<Id> met;  // each after one character more
    uint32_t room = 0;
    for (Id at = state;;) {
        met.push_back(at);
        const Id after = after_plain(at);
        if (after == at) room = kEndless;
        if (after == kDead || after == at || flags_[after].exits != flags_[at].exits) break;
        if (flags_[after].room != kUnknownRoom) {
            room = flags_[after].room;
            met.push_back(after);
            break;
        }
        if (met.size() > horizon_) break;
        at = after;
    }
    for (size_t i = met.size(); i-- > 0;) {
        flags_[met[i]].room = room;
        if (room != kEndless) ++room;
    }
    return flags_[state].room;
}

}  // namespace tandem::text::grammar
