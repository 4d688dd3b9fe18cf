// BPE as the tokenizers library does it: merges of token pairs, in the order they were learned.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

namespace tandem::text {

struct BpeOptions {
    std::optional<TokenId> unk{};
    bool fuse_unk = false;        // neighbouring unknown characters are one token
    bool byte_fallback = false;   // unknown characters become byte tokens
    bool ignore_merges = false;   // a whole piece that is in the vocabulary is one token at once
    bool whole_newlines = false;  // so is one of newlines only
    std::string continuing_subword_prefix{};
    std::string end_of_word_suffix{};
};

struct BpeMerge {
    TokenId left;
    TokenId right;
    TokenId merged;
};

// `vocab` must outlive the model. `merges` in the order of their rank.
TokenModelPtr bpe_model(const Vocabulary& vocab, const std::vector<BpeMerge>& merges, BpeOptions options);

// The merge of two pieces as a file lists it; nothing when a piece or the result is not in the vocabulary.
std::optional<BpeMerge> find_merge(const Vocabulary& vocab, std::string_view left, std::string_view right,
                                   std::string_view continuing_subword_prefix = {});

}  // namespace tandem::text
