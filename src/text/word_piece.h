// WordPiece, BERT's way: a word is cut into the longest pieces from its start, or is unknown as a whole.
#pragma once

#include <cstddef>
#include <string>

#include "text/token_model.h"
#include "text/vocabulary.h"

namespace tandem::text {

struct WordPieceOptions {
    TokenId unk = 0;
    std::string start_mark{};   // how a piece says that it starts a word: "▁" in GGUF, nothing in tokenizer.json
    std::string inside_mark{};  // and that it goes on with one: "##" in tokenizer.json, nothing in GGUF
    size_t max_word_chars = 0;  // longer words are unknown; 0: no limit
};

// Every text that the model gets is one word.
TokenModelPtr word_piece_model(const Vocabulary& vocab, const WordPieceOptions& options);

}  // namespace tandem::text
