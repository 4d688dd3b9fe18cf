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
        std::vector<uint32_t> bits;   // either these, for many
        std::vector<TokenId> tokens;  // or these
        std::vector<Exits> exits;
        size_t bytes() const;
    };

    // Whole masks are kept by the readings they were found for, so that the next token of a string takes no time.
    bool find(const grammar::CallGraph& graph, std::span<const grammar::Item> items, std::span<uint32_t> allowed) const;
    void keep(std::u32string key, std::span<const uint32_t> allowed) const;
    std::shared_ptr<const Mask> mask_of(const grammar::Item& item) const;
    // Tries the tokens below a node of the trie.
    template <typename Allow>
    void walk(uint32_t from, LocalId state, std::vector<Exits>& exits, Allow allow) const;
    using Ended = std::map<grammar::CallId, std::vector<Exits>>;
    void resolve(const grammar::CallGraph& graph, Ended ended, std::span<uint32_t> allowed) const;
    // The nodes among the exits where a state may go on.
    std::vector<uint32_t> entries(std::vector<Exits> exits, LocalId state) const;
    std::vector<grammar::Item> continuations(const grammar::CallGraph& graph, grammar::CallId call) const;

    CompiledGrammarPtr compiled_;
    std::shared_ptr<const TokenTrie> trie_;
    grammar::Machine machine_;

    mutable std::mutex mutex_;
    mutable grammar::LocalStates locals_;
    mutable std::unordered_map<LocalId, std::shared_ptr<const Mask>> masks_;
    mutable std::unordered_map<std::u32string, Mask> whole_;
    mutable size_t mask_bytes_ = 0;
    mutable std::vector<LocalId> path_;  // of a walk, by depth
    mutable size_t work_ = 0;            // nodes tried for one fill()
};

}  // namespace tandem::text
