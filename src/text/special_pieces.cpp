#include <algorithm>
#include <array>

#include "text/tokenizer_parts.h"

namespace tandem::text {

namespace {

// How the families write the end of a text, a message or a turn.
constexpr std::string_view kStopPieces[] = {"</s>",
                                            "<eos>",
                                            "<|endoftext|>",
                                            "<|end_of_text|>",
                                            "<|im_end|>",
                                            "<|eot_id|>",
                                            "<|eom_id|>",
                                            "<|eot|>",
                                            "<|end|>",
                                            "<|return|>",
                                            "<|call|>",
                                            "<|calls|>",
                                            "<|flush|>",
                                            "<end_of_turn>",
                                            "<turn|>",
                                            "<EOT>",
                                            "<|EOT|>",
                                            "[EOT]",
                                            "<|endofturn|>",
                                            "<end_of_utterance>",
                                            "[EOS]",
                                            "[e~[",
                                            "<|tool_response>",
                                            "<|END_OF_TURN_TOKEN|>",
                                            "<｜end▁of▁sentence｜>"};

// Pieces that end nothing in a vocabulary that has all the others: with Harmony and its like <|end|> is where one
// message of several ends, and to Gemma 4 </s> is what it is in HTML.
struct NoStop {
    std::string_view piece;
    std::array<std::string_view, 2> where;
};
constexpr NoStop kNoStop[] = {{"<|end|>", {"<|return|>", "<|call|>"}},
                              {"<|end|>", {"<|calls|>", "<|flush|>"}},
                              {"</s>", {"<|tool_response>", "<turn|>"}}};

bool ends_nothing(const Vocabulary& vocab, std::string_view piece) {
    return std::any_of(std::begin(kNoStop), std::end(kNoStop), [&](const NoStop& rule) {
        const auto known = [&](std::string_view other) { return vocab.find(other).has_value(); };
        return rule.piece == piece && std::all_of(rule.where.begin(), rule.where.end(), known);
    });
}

}  // namespace

AddedTokens whole_pieces(const Vocabulary& vocab) {
    std::vector<AddedToken> tokens;
    for (TokenId id = 0; id < vocab.size(); ++id) {
        const Piece& piece = vocab[id];
        const bool special = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
        if (special || piece.kind == PieceKind::user_defined)
            tokens.push_back(
                {.id = id, .content = piece.text, .special = special, .lstrip = piece.lstrip, .rstrip = piece.rstrip});
    }
    return AddedTokens(std::move(tokens));
}

void set_stop_tokens(TokenizerParts& parts, const std::vector<TokenId>& more) {
    std::vector<TokenId> stop = more;
    if (parts.eos) stop.push_back(*parts.eos);
    for (const std::string_view piece : kStopPieces) {
        const auto id = parts.vocab.find(piece);
        if (!id || ends_nothing(parts.vocab, piece)) continue;
        const PieceKind kind = parts.vocab[*id].kind;
        if (kind == PieceKind::control || kind == PieceKind::user_defined) stop.push_back(*id);
    }
    std::erase_if(stop, [&](TokenId id) { return !parts.vocab.contains(id); });
    std::sort(stop.begin(), stop.end());
    stop.erase(std::unique(stop.begin(), stop.end()), stop.end());
    parts.stop = std::move(stop);
}

}  // namespace tandem::text
