#include "text/tokenizer_parts.h"

namespace tandem::text {

namespace {

std::optional<TokenId> find_kind(const Vocabulary& vocab, std::string_view piece, PieceKind kind) {
    const auto id = vocab.find(piece);
    return id && vocab[*id].kind == kind ? id : std::nullopt;
}

Trie user_defined_trie(const Vocabulary& vocab) {
    std::vector<Trie::Key> keys;
    for (TokenId id = 0; id < vocab.size(); ++id) {
        if (is_user_defined(vocab[id])) keys.push_back({vocab[id].text, id});
    }
    return Trie(std::move(keys));
}

}  // namespace

Result<std::unique_ptr<TokenizerParts>> make_sentencepiece_parts(SentencePieceSpec spec,
                                                                 const SentencePieceSetup& setup) {
    auto parts = std::make_unique<TokenizerParts>();
    Charsmap charsmap = TRY(Charsmap::parse(spec.charsmap));
    if (setup.whole_pieces) {
        for (Piece& piece : spec.pieces) piece.added = piece.kind == PieceKind::user_defined;
    }
    parts->vocab = Vocabulary(std::move(spec.pieces));
    const Vocabulary& vocab = parts->vocab;
    parts->replaces_broken_utf8 = false;
    if (setup.whole_pieces) parts->added = whole_pieces(vocab);
    parts->normalizer = sentencepiece_normalizer({.charsmap = std::move(charsmap),
                                                  .user_defined = user_defined_trie(vocab),
                                                  .add_dummy_prefix = spec.add_dummy_prefix,
                                                  .remove_extra_whitespaces = spec.remove_extra_whitespaces,
                                                  .escape_whitespaces = spec.escape_whitespaces,
                                                  .whitespace_as_suffix = spec.whitespace_as_suffix});
    SentencePieceVocab pieces(vocab, spec.byte_fallback);
    if (spec.byte_fallback && !pieces.bytes)
        return fail("byte_fallback is set but the vocabulary lacks some of the pieces <0x00> to <0xFF>");
    parts->unk = pieces.unk;
    const bool is_bpe = spec.kind == SentencePieceSpec::Kind::bpe;
    parts->model = is_bpe ? sentencepiece_bpe(std::move(pieces)) : sentencepiece_unigram(std::move(pieces));
    parts->decoder = sentencepiece_decoder({.strip_first_space = spec.add_dummy_prefix,
                                            .strip_all_leading_spaces = spec.remove_extra_whitespaces,
                                            .show_control = setup.whole_pieces,
                                            .unk_surface = spec.unk_surface});
    parts->bos = find_kind(vocab, spec.bos_piece, PieceKind::control);
    parts->eos = find_kind(vocab, spec.eos_piece, PieceKind::control);
    parts->pad = find_kind(vocab, spec.pad_piece, PieceKind::control);
    if (setup.add_bos && parts->bos) parts->prefix = {*parts->bos};
    if (setup.add_eos && parts->eos) parts->suffix = {*parts->eos};
    set_stop_tokens(*parts);
    return parts;
}

Result<Tokenizer> parse_sentencepiece_model(std::span<const std::byte> bytes, std::string_view name) {
    auto parts = make_sentencepiece_parts(TRY(parse_sentencepiece_proto(bytes, name)), {.add_bos = true});
    if (!parts) return fail("{}: {}", name, parts.error().message);
    return Tokenizer(std::move(parts).value());
}

}  // namespace tandem::text
