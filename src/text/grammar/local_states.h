// What follows from a state of the automaton when nothing is known about its callers, as a deterministic automaton that
// is made as it is needed. It is how all tokens are tried quickly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/machine.h"

namespace tandem::text::grammar {

class LocalStates {
  public:
    using Id = uint32_t;
    static constexpr Id kDead = 0;

    // `horizon`: bytes that are followed at most. Counts that make no difference within them are not told apart.
    LocalStates(const Automaton& automaton, size_t horizon);

    // The state of an item whose caller is unknown; that of its call is ignored.
    Id start(const Item& item);
    Id next(Id state, uint8_t byte) {
        const Id known = next_[size_t{state} * 256 + byte];
        return known != kUnknown ? known : make_next(state, byte);
    }
    // The unknown caller may go on after it.
    bool exits(Id state) const { return flags_[state].exits; }
    // Nothing but the caller can go on.
    bool is_final(Id state) const { return flags_[state].is_final; }
    // How many characters of plain_text() make no difference: each leads to the same state whichever it is, and the
    // unknown caller may go on after all of them or after none.
    static constexpr uint32_t kEndless = UINT32_MAX;
    uint32_t room(Id state) { return flags_[state].room != kUnknownRoom ? flags_[state].room : find_room(state); }

    // How many characters of plain_text(), `most` at most, lead to the same state whichever they are; and to which.
    struct Reach {
        uint32_t characters = 0;
        Id state = kDead;
    };
    Reach reach(Id state, uint32_t most);
    // Some plain text may follow.
    bool takes_plain(Id state);

    // Readings with all their callers, written so that those with the same text allow the same tokens.
    std::u32string key_of(const CallGraph& graph, std::span<const Item> items) const;

    size_t size() const { return flags_.size(); }
    // There were more states than we are willing to keep: what next() gave is not to be used. clear() helps once.
    bool overflow() const { return overflow_; }
    void clear();

  private:
    static constexpr Id kUnknown = UINT32_MAX;

    static constexpr uint32_t kUnknownRoom = kEndless - 1;
    struct Flags {
        bool exits = false;
        bool is_final = false;
        uint32_t room = kUnknownRoom;
        Id after_plain = kUnknown;
    };

    Id intern(const CallGraph& graph, std::span<const Item> items, CallId first_new, bool exits);
    void load(Id state);
    Id make_next(Id state, uint8_t byte);
    uint32_t find_room(Id state);
    Id after_any(Id state, std::span<const ByteRange> bytes);
    // The state that every character of plain_text() leads to; kDead if there is no single one.
    Id after_plain(Id state);
    Id find_after_plain(Id state);
    bool counts_plain(Id state);
    Item clamp(Item item) const;

    const Automaton& automaton_;
    uint64_t horizon_;
    Machine machine_;
    std::vector<Id> next_;  // 256 for each state
    std::vector<Flags> flags_;
    std::vector<const std::u32string*> keys_;  // of ids_, which holds them
    std::unordered_map<std::u32string, Id> ids_;
    bool overflow_ = false;
    // Scratch: the state that is being looked at, and its successor.
    CallGraph graph_;
    std::vector<Item> items_;
    std::vector<Item> after_;
    Id loaded_ = kUnknown;
    size_t loaded_calls_ = 0;
};

}  // namespace tandem::text::grammar
