#include "text/vocabulary.h"

#include <charconv>

namespace tandem::text {

Vocabulary::Vocabulary(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
    ids_.reserve(pieces_.size());
    for (size_t i = 0; i < pieces_.size(); ++i) {
        if (!pieces_[i].text.empty()) ids_.emplace(pieces_[i].text, static_cast<TokenId>(i));
    }
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
}

std::optional<TokenId> Vocabulary::find_in_model(std::string_view text) const {
    const auto id = find(text);
    return id && !(*this)[*id].added ? id : std::nullopt;
}

std::optional<uint8_t> parse_byte_piece(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
    uint8_t byte = 0;
    const char* end = piece.data() + 5;
    const auto [at, error] = std::from_chars(piece.data() + 3, end, byte, 16);
    if (error != std::errc() || at != end) return std::nullopt;
    return byte;
}

std::optional<std::vector<TokenId>> find_byte_pieces(const Vocabulary& vocab) {
    std::vector<TokenId> ids;
    for (int byte = 0; byte < 256; ++byte) {
        const auto id = vocab.find(fmt::format("<0x{:02X}>", byte));
        if (!id) return std::nullopt;
        ids.push_back(*id);
    }
    return ids;
}

}  // namespace tandem::text
