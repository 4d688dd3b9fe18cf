#include <algorithm>

#include "format/gguf.h"
#include "text/bpe.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/tokenizer_parts.h"

namespace tandem::text {

using format::GgufFile;

namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";

Result<PieceKind> parse_kind(int64_t type, size_t id) {
    if (type == 0) return PieceKind::normal;
    if (type < 0 || type > 6) return fail("tokenizer.ggml.token_type: token {} has the unknown type {}", id, type);
    return static_cast<PieceKind>(type);
}

std::optional<TokenId> token_id(const GgufFile& gguf, const Vocabulary& vocab, std::string_view key) {
    const auto id = gguf.get_int(key);
    if (!id || *id < 0 || *id >= vocab.size()) return std::nullopt;
    return static_cast<TokenId>(*id);
}

// Begin and end of a text are control tokens even where a file calls them normal.
void mark_control(const GgufFile& gguf, std::string_view key, std::vector<Piece>& pieces) {
    const auto id = gguf.get_int(key);
    if (!id || *id < 0 || *id >= static_cast<int64_t>(pieces.size())) return;
    Piece& piece = pieces[static_cast<size_t>(*id)];
    if (piece.kind == PieceKind::normal) piece.kind = PieceKind::control;
}

Result<std::vector<Piece>> read_pieces(const GgufFile& gguf) {
    const auto texts = gguf.get_strings(kTokens);
    if (!texts || texts->empty()) return fail("it has no {}, so it carries no tokenizer", kTokens);
    const auto scores = gguf.get_floats("tokenizer.ggml.scores");
    const auto types = gguf.get_ints("tokenizer.ggml.token_type");
    if (scores && scores->size() < texts->size())
        return fail("tokenizer.ggml.scores has {} entries for {} tokens", scores->size(), texts->size());
    if (types && types->size() < texts->size())
        return fail("tokenizer.ggml.token_type has {} entries for {} tokens", types->size(), texts->size());
    std::vector<Piece> pieces(texts->size());
    for (size_t i = 0; i < pieces.size(); ++i) {
        Piece& piece = pieces[i];
        piece.text = (*texts)[i];
        if (scores) piece.score = (*scores)[i];
        if (types) piece.kind = TRY(parse_kind((*types)[i], i));
        if (piece.text.empty()) piece.kind = PieceKind::unused;
        if (piece.score != piece.score) return fail("tokenizer.ggml.scores: that of token {} is not a number", i);
        if (piece.text.size() > Vocabulary::kMaxPieceBytes)
            return fail("token {} has {} bytes; the limit is {}", i, piece.text.size(), Vocabulary::kMaxPieceBytes);
    }
    mark_control(gguf, "tokenizer.ggml.bos_token_id", pieces);
    mark_control(gguf, "tokenizer.ggml.eos_token_id", pieces);
    return pieces;
}

std::string read_charsmap(const GgufFile& gguf) {
    std::string blob;
    const auto* value = gguf.find("tokenizer.ggml.precompiled_charsmap");
    const auto array = value != nullptr ? value->as_array() : std::nullopt;
    const bool is_bytes = array && (array->type == format::GgufType::u8 || array->type == format::GgufType::i8);
    if (is_bytes) blob.assign(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
    return blob;
}

// "llama" goes by the scores of the pieces as BPE, "t5" is unigram.
Result<std::unique_ptr<TokenizerParts>> make_sentencepiece(const GgufFile& gguf, SentencePieceSpec::Kind kind) {
    SentencePieceSpec spec;
    spec.kind = kind;
    spec.pieces = TRY(read_pieces(gguf));
    if (kind == SentencePieceSpec::Kind::unigram) spec.charsmap = read_charsmap(gguf);
    spec.add_dummy_prefix = gguf.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
    spec.remove_extra_whitespaces = gguf.get_bool("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    const auto bytes = std::count_if(spec.pieces.begin(), spec.pieces.end(), [](const Piece& piece) {
        return piece.kind == PieceKind::byte && parse_byte_piece(piece.text);
    });
    spec.byte_fallback = bytes == 256;
    return make_sentencepiece_parts(std::move(spec), {.control_in_text = true});
}

Result<std::vector<BpeMerge>> read_merges(const GgufFile& gguf, const Vocabulary& vocab) {
    const auto lines = gguf.get_strings("tokenizer.ggml.merges");
    if (!lines) return fail("it has no tokenizer.ggml.merges");
    std::vector<BpeMerge> merges;
    merges.reserve(lines->size());
    for (const std::string_view line : *lines) {
        const size_t space = line.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == line.size())
            return fail("tokenizer.ggml.merges: '{}' is not a pair of pieces", line);
        // Merges towards pieces that the vocabulary lacks occur in trimmed vocabularies.
        if (const auto merge = find_merge(vocab, line.substr(0, space), line.substr(space + 1)))
            merges.push_back(*merge);
    }
    return merges;
}

AddedTokens find_added_tokens(const Vocabulary& vocab) {
    std::vector<AddedToken> tokens;
    for (TokenId id = 0; id < vocab.size(); ++id) {
        const Piece& piece = vocab[id];
        const bool special = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
        if (special || piece.kind == PieceKind::user_defined)
            tokens.push_back({.id = id, .content = piece.text, .special = special});
    }
    return AddedTokens(std::move(tokens));
}

Result<std::unique_ptr<TokenizerParts>> make_byte_level(const GgufFile& gguf) {
    const std::string_view pre = gguf.get_string("tokenizer.ggml.pre").value_or("default");
    const GgufPreTokenizer* splits = find_gguf_pre_tokenizer(pre);
    if (splits == nullptr) return fail("tokenizer.ggml.pre '{}' is not a known pre-tokenizer", pre);
    auto parts = std::make_unique<TokenizerParts>();
    parts->vocab = Vocabulary(TRY(read_pieces(gguf)));
    parts->added = find_added_tokens(parts->vocab);
    for (const std::string_view expression : splits->expressions)
        parts->pre_tokenizers.push_back(split_pre_tokenizer(TRY(Pattern::regex(expression)), SplitBehavior::isolated));
    parts->pre_tokenizers.push_back(byte_level_pre_tokenizer());
    const auto merges = TRY(read_merges(gguf, parts->vocab));
    parts->model = bpe_model(parts->vocab, merges, {.ignore_merges = splits->ignore_merges});
    parts->decoder = stepwise_decoder(std::vector<DecodeStep>{{.kind = DecodeStep::Kind::byte_level}});
    return parts;
}

// Of a tokenizer that says nothing about it.
struct Defaults {
    bool add_bos = false;
    bool add_eos = false;
};

void set_special_tokens(const GgufFile& gguf, const Defaults& defaults, TokenizerParts& parts) {
    const auto id = [&](std::string_view key) { return token_id(gguf, parts.vocab, key); };
    parts.bos = id("tokenizer.ggml.bos_token_id");
    parts.eos = id("tokenizer.ggml.eos_token_id");
    parts.pad = id("tokenizer.ggml.padding_token_id");
    if (const auto unk = id("tokenizer.ggml.unknown_token_id")) parts.unk = unk;
    if (parts.bos && gguf.get_bool("tokenizer.ggml.add_bos_token").value_or(defaults.add_bos))
        parts.prefix = {*parts.bos};
    if (parts.eos && gguf.get_bool("tokenizer.ggml.add_eos_token").value_or(defaults.add_eos))
        parts.suffix = {*parts.eos};
    std::vector<TokenId> stop;
    for (const auto end : {id("tokenizer.ggml.eot_token_id"), id("tokenizer.ggml.eom_token_id")}) {
        if (end) stop.push_back(*end);
    }
    set_stop_tokens(parts, stop);
}

Result<std::unique_ptr<TokenizerParts>> make_parts(const GgufFile& gguf) {
    const auto model = gguf.get_string("tokenizer.ggml.model");
    if (!model) return fail("it has no tokenizer.ggml.model, so it carries no tokenizer");
    std::unique_ptr<TokenizerParts> parts;
    Defaults defaults;
    if (*model == "llama") {
        parts = TRY(make_sentencepiece(gguf, SentencePieceSpec::Kind::bpe));
        defaults.add_bos = true;
    } else if (*model == "t5") {
        parts = TRY(make_sentencepiece(gguf, SentencePieceSpec::Kind::unigram));
        defaults.add_eos = true;
    } else if (*model == "gpt2") {
        parts = TRY(make_byte_level(gguf));
        const auto* splits = find_gguf_pre_tokenizer(gguf.get_string("tokenizer.ggml.pre").value_or("default"));
        defaults.add_bos = splits != nullptr && splits->add_bos;
    } else {
        return fail("tokenizer.ggml.model '{}' is not supported; llama, gpt2 and t5 are", *model);
    }
    set_special_tokens(gguf, defaults, *parts);
    return parts;
}

}  // namespace

Result<Tokenizer> parse_gguf_tokenizer(const GgufFile& gguf) {
    auto parts = make_parts(gguf);
    if (!parts) return fail("{}: {}", gguf.name(), parts.error().message);
    return Tokenizer(std::move(parts).value());
}

}  // namespace tandem::text
