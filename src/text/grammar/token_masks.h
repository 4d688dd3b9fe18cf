// Which tokens of a vocabulary may come next, for every state of one grammar. What is found is kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/local_states.h"
#include "text/grammar/token_trie.h"

namespace tandem::text {

// A grammar with the vocabulary of a model. Make one for each pair and share it between the answers held to it: the
// masks found for one serve the others. Safe to use from several threads.
class TokenMasks {
  public:
    TokenMasks(CompiledGrammarPtr compiled, std::shared_ptr<const TokenTrie> trie);

    const TokenTrie& trie() const { return *trie_; }
    const grammar::Automaton& automaton() const { return compiled_->automaton(); }

    // Sets the bits, none of them set before, of the tokens whose bytes can follow in any of the readings `items`; no
    // stop tokens. False: there are more readings than we are willing to follow.
    bool fill(const grammar::CallGraph& graph, std::span<const grammar::Item> items, std::span<uint32_t> allowed) const;

    size_t kept_bytes() const;

  private:
    using LocalId = grammar::LocalStates::Id;

    // Nodes of the trie where a rule has ended and tokens go on. Of many at once those within a character are not
    // meant.
    struct Exits {
        uint32_t first = 0;
        uint32_t last = 0;                               // the one after them
        auto operator<=>(const Exits&) const = default;  // NOLINT(modernize-use-nullptr): what the compiler makes of it
    };

    // The tokens that a state allows whatever its callers are, and where tokens go on after the end of its rule.
    struct Mask {
        uint32_t number = 0;          // of the masks made
        uint32_t plain = 0;           // tokens of plain text, of so many characters at most (TokenTrie::plain_tokens)
        std::vector<uint32_t> bits;   // and either these, for many
        std::vector<TokenId> tokens;  // or these
        std::vector<Exits> exits;
        LocalId unwalked = grammar::LocalStates::kDead;  // not kDead: exits within plain text are still to be found
        size_t bytes() const;
    };
    using MaskPtr = std::shared_ptr<const Mask>;

    // Masks are kept by the readings they were found for, so that the next token of a string takes no time.
    bool find(const grammar::CallGraph& graph, std::span<const grammar::Item> items, std::vector<MaskPtr>& found) const;
    MaskPtr mask_of(const grammar::Item& item) const;
    MaskPtr one_mask(const std::vector<MaskPtr>& parts) const;
    void add_to(std::span<uint32_t> allowed, const Mask& mask) const;
    void allow(Mask& mask, std::span<const TokenId> ids) const;
    // Tries the tokens below a node of the trie.
    void walk(uint32_t from, LocalId state, Mask& mask) const;
    // Where rules have ended within tokens, by call.
    using Ended = std::map<grammar::CallId, std::vector<MaskPtr>>;
    bool resolve(const grammar::CallGraph& graph, Ended ended, std::vector<MaskPtr>& found) const;
    // What `state` allows after the exits of all these.
    MaskPtr follow(std::vector<MaskPtr> sources, LocalId state) const;
    MaskPtr plain_exits(LocalId unwalked) const;
    // The nodes among the exits where a state may go on.
    std::vector<uint32_t> entries(std::vector<Exits> exits, LocalId state) const;
    std::vector<grammar::Item> continuations(const grammar::CallGraph& graph, grammar::CallId call) const;
    bool is_too_much() const;  // what was done or kept for one fill()
    std::shared_ptr<Mask> new_mask() const;
    MaskPtr keep(std::u32string key, std::shared_ptr<Mask> mask) const;

    CompiledGrammarPtr compiled_;
    std::shared_ptr<const TokenTrie> trie_;
    grammar::Machine machine_;

    mutable std::mutex mutex_;
    mutable grammar::LocalStates locals_;
    mutable std::unordered_map<std::u32string, MaskPtr> masks_;               // by what they were made of: see key()
    mutable std::unordered_map<std::u32string, std::vector<MaskPtr>> whole_;  // all of them together
    mutable size_t mask_bytes_ = 0;
    mutable uint32_t masks_made_ = 0;
    mutable std::vector<LocalId> path_;  // of a walk, by depth
    mutable size_t work_ = 0;            // nodes tried for one fill()
};

}  // namespace tandem::text
