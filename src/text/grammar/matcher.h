// Holds one answer to a grammar: tells which tokens may come next, and follows those that are chosen.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "text/grammar/machine.h"
#include "text/grammar/token_masks.h"

namespace tandem::text {

class GrammarMatcher {
  public:
    explicit GrammarMatcher(std::shared_ptr<const TokenMasks> masks);

    // False when the token cannot follow; nothing has changed then. A stop token is accepted where the text may end.
    bool accept(TokenId id);
    // Takes the last tokens back: what was only drafted.
    void rollback(size_t tokens);
    size_t accepted() const { return positions_.size() - 1; }

    // The text so far is complete, though it might go on.
    bool may_end() const { return !finished() && positions_.back().may_end; }
    // A stop token was accepted.
    bool finished() const { return finished_; }

    // A bit for each token that accept() takes: id i is bit i % 32 of word i / 32. There must be words for the whole
    // vocabulary; what is beyond it is cleared. An error when no token can follow or the grammar is too ambiguous.
    Status fill_mask(std::span<uint32_t> allowed) const;

  private:
    struct Position {
        size_t items_begin = 0;
        size_t calls = 0;               // made until then
        grammar::CallId first_new = 0;  // calls from here on were made at this position
        bool may_end = false;
    };

    std::span<const grammar::Item> items() const;

    std::shared_ptr<const TokenMasks> masks_;
    grammar::Machine machine_;
    grammar::CallGraph graph_;
    std::vector<grammar::Item> items_;  // of all positions
    std::vector<Position> positions_;   // before each token, and now
    bool finished_ = false;
};

}  // namespace tandem::text
