// SentencePiece models: their pieces, their settings, and the BPE that goes by scores.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/token_model.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace tandem::text {

// What a tokenizer.model file or the metadata of a GGUF file says. The defaults are those of the file format.
struct SentencePieceSpec {
    enum class Kind { unigram, bpe };

    Kind kind = Kind::unigram;
    std::vector<Piece> pieces;
    std::string charsmap;
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
    bool whitespace_as_suffix = false;
    bool byte_fallback = false;
    std::string unk_surface = " \xE2\x81\x87 ";
    std::string unk_piece = "<unk>";
    std::string bos_piece = "<s>";
    std::string eos_piece = "</s>";
    std::string pad_piece = "<pad>";
};

// Reads the protocol buffer of a tokenizer.model.
Result<SentencePieceSpec> parse_sentencepiece_proto(std::span<const std::byte> bytes, std::string_view name);

// What both SentencePiece models need to know of a vocabulary.
struct SentencePieceVocab {
    SentencePieceVocab(const Vocabulary& pieces, bool byte_fallback);

    // Pieces that text is made of, as opposed to control pieces, bytes and the unknown.
    bool is_text(TokenId id) const;

    const Vocabulary& vocab;
    Trie user_defined;  // matched before everything else
    std::optional<TokenId> unk;
    std::optional<std::vector<TokenId>> bytes;  // when unknown text becomes bytes
    bool has_unused = false;
};

// Appends tokens; text that has none becomes bytes, or one unknown token per run.
class UnknownRun {
  public:
    UnknownRun(const SentencePieceVocab& pieces, std::vector<TokenId>& out) : pieces_(pieces), out_(out) {}
    void push(std::string_view text, std::optional<TokenId> id);

  private:
    const SentencePieceVocab& pieces_;
    std::vector<TokenId>& out_;
    bool after_unknown_ = false;
};

// What the model itself finds before everything else, as opposed to pieces that were added to it.
inline bool is_user_defined(const Piece& piece) {
    return piece.kind == PieceKind::user_defined && !piece.added;
}

// User-defined pieces with their spaces as the normalized text has them.
std::string user_defined_text(const Piece& piece);

TokenModelPtr sentencepiece_bpe(SentencePieceVocab pieces);
TokenModelPtr sentencepiece_unigram(SentencePieceVocab pieces);

}  // namespace tandem::text
