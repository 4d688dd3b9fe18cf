// The pieces of a tokenizer, by id and by text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::text {

// As SentencePiece has them; the numbers are those of its files and of GGUF.
enum class PieceKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct Piece {
    std::string text;
    PieceKind kind = PieceKind::normal;
    float score = 0;
    bool added = false;   // not known to the model: only found whole in a text, before it is tokenized
    bool lstrip = false;  // where it is found whole: takes the spaces before it along
    bool rstrip = false;  // and those after it
};

class Vocabulary {
  public:
    // No piece of a real vocabulary is longer; the limit keeps a hostile one from making encoding slow.
    static constexpr size_t kMaxPieceBytes = 4096;

    Vocabulary() = default;
    // Of equal pieces the first counts. Ids that no piece has are empty and unused.
    explicit Vocabulary(std::vector<Piece> pieces);

    int size() const { return static_cast<int>(pieces_.size()); }
    bool contains(TokenId id) const { return id >= 0 && id < size(); }
    const Piece& operator[](TokenId id) const { return pieces_[static_cast<size_t>(id)]; }
    std::optional<TokenId> find(std::string_view text) const;
    // Without the added pieces.
    std::optional<TokenId> find_in_model(std::string_view text) const;

  private:
    std::vector<Piece> pieces_;
    std::unordered_map<std::string_view, TokenId> ids_;  // views into pieces_
};

// "<0x0A>" -> 10; nothing for any other piece.
std::optional<uint8_t> parse_byte_piece(std::string_view piece);
// The ids of "<0x00>" ... "<0xFF>"; nothing unless all are there.
std::optional<std::vector<TokenId>> find_byte_pieces(const Vocabulary& vocab);

}  // namespace tandem::text
