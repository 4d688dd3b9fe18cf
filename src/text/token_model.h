// The step from a piece of text to token ids: BPE by merge rank or by score, unigram, and WordPiece.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::text {

// A stretch of the text on its way to becoming a token; they form a list.
struct Symbol {
    int32_t prev;
    int32_t next;
    uint32_t begin;
    uint32_t size;  // bytes; 0 once it has been merged into its neighbour
    TokenId id;
};

struct MergeCandidate {
    uint64_t order;  // the rank, then the index of the left symbol: the lowest merges first
    TokenId id;
    uint32_t size;  // of both symbols, when it was found: another size tells that it is out of date

    int32_t left() const { return static_cast<int32_t>(order & 0xFFFFFFFFU); }
};

// Buffers that one encode() reuses from piece to piece.
struct ModelScratch {
    std::vector<Symbol> symbols;
    std::vector<MergeCandidate> queue;
};

class TokenModel {
  public:
    virtual ~TokenModel() = default;
    // Appends the tokens of `text`. At most 4 GiB.
    virtual void encode(std::string_view text, ModelScratch& scratch, std::vector<TokenId>& out) const = 0;
};

using TokenModelPtr = std::unique_ptr<const TokenModel>;

}  // namespace tandem::text
