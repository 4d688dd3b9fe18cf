// What a tokenizer is made of; the loaders fill it in, Tokenizer runs it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/spm_model.h"
#include "text/token_model.h"
#include "text/vocabulary.h"

namespace tandem::text {

// The models refer to the vocabulary inside, so that parts stay where they were made.
struct TokenizerParts {
    TokenizerParts() = default;
    TokenizerParts(const TokenizerParts&) = delete;
    TokenizerParts& operator=(const TokenizerParts&) = delete;

    Vocabulary vocab;
    bool replaces_broken_utf8 = true;  // before everything else; SentencePiece's normalizer does it itself
    AddedTokens added;                 // found in the text as it comes
    NormalizerPtr normalizer;          // may be null
    AddedTokens added_normalized;      // found in the normalized text
    std::vector<PreTokenizerPtr> pre_tokenizers;
    TokenModelPtr model;
    DecoderPtr decoder;

    std::vector<TokenId> prefix, suffix;  // what add_special adds
    std::optional<TokenId> bos, eos, unk, pad;
    std::vector<TokenId> stop;
};

// The control and unknown pieces, which are special, and the user-defined ones: to be found in a text as it comes.
AddedTokens whole_pieces(const Vocabulary& vocab);

// The rest of a load: adds eos, `more`, and what is known by name to end a turn to the stop tokens.
void set_stop_tokens(TokenizerParts& parts, const std::vector<TokenId>& more = {});

struct SentencePieceSetup {
    // Whole pieces are found in a text before it is normalized, as everybody but SentencePiece itself does, and control
    // pieces are shown in a decoded one.
    bool whole_pieces = false;
    bool add_bos = false;
    bool add_eos = false;
};
Result<std::unique_ptr<TokenizerParts>> make_sentencepiece_parts(SentencePieceSpec spec,
                                                                 const SentencePieceSetup& setup);

Result<std::unique_ptr<TokenizerParts>> make_json_parts(std::string_view json, std::string_view name);

}  // namespace tandem::text
