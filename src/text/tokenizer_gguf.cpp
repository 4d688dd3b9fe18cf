#include <algorithm>

#include "format/gguf.h"
#include "text/bpe.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"
#include "text/word_piece.h"

namespace tandem::text {

using format::GgufFile;

namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kSupported = "llama, gpt2, gemma4, whitespace, t5 and bert";

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

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return text.find(part) != text.npos; });
}

// GGUF does not keep which tokens take the spaces beside them along; these models are known to have such.
void mark_strips(const GgufFile& gguf, std::vector<Piece>& pieces) {
    std::string name(gguf.get_string("general.name").value_or(""));
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const std::string_view architecture = gguf.get_string("general.architecture").value_or("");
    const std::string_view pre = gguf.get_string("tokenizer.ggml.pre").value_or("");
    const bool sentencepiece = gguf.get_string("tokenizer.ggml.model") == "llama";
    const bool phi3 = contains_any(name, {"phi-3", "phi3"}) || (sentencepiece && architecture == "phi3");
    std::string_view mask;
    if (contains_any(pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
        contains_any(architecture, {"nomic-bert-moe", "jina-bert-v3"}))
        mask = "<mask>";
    else if (contains_any(name, {"modern-bert"}))
        mask = "[MASK]";
    for (Piece& piece : pieces) {
        const bool whole = piece.kind == PieceKind::control || piece.kind == PieceKind::user_defined;
        const bool plain = piece.text == "<unk>" || piece.text == "<s>" || piece.text == "<|endoftext|>";
        piece.rstrip = phi3 && whole && !plain;
        piece.lstrip = !mask.empty() && piece.text == mask;
    }
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
    mark_strips(gguf, pieces);
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
    return make_sentencepiece_parts(std::move(spec), {.whole_pieces = true});
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

// The steps from a text to words.
Status set_splits(const GgufFile& gguf, const GgufPreTokenizer& splits, TokenizerParts& parts) {
    const bool lowercase = gguf.get_bool("tokenizer.ggml.normalizer.lowercase").value_or(false);
    if (splits.spelling == GgufPreTokenizer::Spelling::marked_spaces)
        parts.normalizer = replace_normalizer(Pattern::literal(" "), std::string(kSpaceMark));
    else if (splits.spelling == GgufPreTokenizer::Spelling::no_spaces && lowercase)
        parts.normalizer = lowercase_normalizer();
    if (!splits.thousands.empty())
        parts.pre_tokenizers.push_back(thousands_pre_tokenizer(TRY(Pattern::regex(splits.thousands))));
    for (const std::string_view expression : splits.expressions)
        parts.pre_tokenizers.push_back(split_pre_tokenizer(TRY(Pattern::regex(expression)), SplitBehavior::isolated));
    if (splits.spelling == GgufPreTokenizer::Spelling::no_spaces)
        parts.pre_tokenizers.push_back(whitespace_pre_tokenizer());
    if (splits.spelling == GgufPreTokenizer::Spelling::bytes)
        parts.pre_tokenizers.push_back(byte_level_pre_tokenizer());
    return Ok{};
}

DecoderPtr make_bpe_decoder(GgufPreTokenizer::Spelling spelling) {
    std::vector<DecodeStep> steps;
    switch (spelling) {
        case GgufPreTokenizer::Spelling::bytes:
            steps.push_back({.kind = DecodeStep::Kind::byte_level});
            break;
        case GgufPreTokenizer::Spelling::marked_spaces:
            steps.push_back({.kind = DecodeStep::Kind::metaspace, .content = std::string(kSpaceMark)});
            steps.push_back({.kind = DecodeStep::Kind::byte_fallback});
            break;
        case GgufPreTokenizer::Spelling::no_spaces:
            steps.push_back({.kind = DecodeStep::Kind::byte_fallback});
            break;
    }
    return stepwise_decoder(std::move(steps));
}

Result<std::unique_ptr<TokenizerParts>> make_gguf_bpe(const GgufFile& gguf, const GgufPreTokenizer& splits) {
    const bool as_bytes = splits.spelling == GgufPreTokenizer::Spelling::bytes;
    auto parts = std::make_unique<TokenizerParts>();
    parts->vocab = Vocabulary(TRY(read_pieces(gguf)));
    parts->added = whole_pieces(parts->vocab);
    TRY(set_splits(gguf, splits, *parts));
    const auto merges = TRY(read_merges(gguf, parts->vocab));
    parts->model = bpe_model(
        parts->vocab, merges,
        {.byte_fallback = !as_bytes, .ignore_merges = splits.ignore_merges, .whole_newlines = splits.whole_newlines});
    parts->decoder = make_bpe_decoder(splits.spelling);
    return parts;
}

// BERT. A piece that starts a word has U+2581 before it, where the original has "##" before all others.
Result<std::unique_ptr<TokenizerParts>> make_gguf_word_piece(const GgufFile& gguf) {
    auto parts = std::make_unique<TokenizerParts>();
    parts->vocab = Vocabulary(TRY(read_pieces(gguf)));
    const auto unk = token_id(gguf, parts->vocab, "tokenizer.ggml.unknown_token_id");
    parts->unk = unk ? unk : parts->vocab.find("[UNK]");
    if (!parts->unk) return fail("it has neither tokenizer.ggml.unknown_token_id nor a token [UNK]");
    parts->added = whole_pieces(parts->vocab);
    const bool lowercase = gguf.get_bool("tokenizer.ggml.normalizer.lowercase").value_or(true);
    parts->normalizer =
        bert_normalizer({.strip_accents = gguf.get_bool("tokenizer.ggml.normalizer.strip_accents").value_or(lowercase),
                         .lowercase = lowercase});
    parts->pre_tokenizers.push_back(whitespace_pre_tokenizer());
    parts->pre_tokenizers.push_back(punctuation_pre_tokenizer(SplitBehavior::isolated));
    parts->model = word_piece_model(parts->vocab, {.unk = *parts->unk, .start_mark = std::string(kSpaceMark)});
    parts->decoder = stepwise_decoder(std::vector<DecodeStep>{{.kind = DecodeStep::Kind::metaspace,
                                                               .content = std::string(kSpaceMark),
                                                               .drops_first = true,
                                                               .cleans_up = true}});
    return parts;
}

// Of a tokenizer that says nothing about it.
struct Defaults {
    bool add_bos = false;
    bool add_eos = false;
    bool always_bos = false;  // even where it denies it
};

void set_special_tokens(const GgufFile& gguf, const Defaults& defaults, TokenizerParts& parts) {
    const auto id = [&](std::string_view key) { return token_id(gguf, parts.vocab, key); };
    parts.bos = id("tokenizer.ggml.bos_token_id");
    parts.eos = id("tokenizer.ggml.eos_token_id");
    parts.pad = id("tokenizer.ggml.padding_token_id");
    if (const auto unk = id("tokenizer.ggml.unknown_token_id")) parts.unk = unk;
    const bool add_bos = gguf.get_bool("tokenizer.ggml.add_bos_token").value_or(defaults.add_bos);
    if (parts.bos && (add_bos || defaults.always_bos)) parts.prefix = {*parts.bos};
    if (parts.eos && gguf.get_bool("tokenizer.ggml.add_eos_token").value_or(defaults.add_eos))
        parts.suffix = {*parts.eos};
    std::vector<TokenId> stop;
    for (const auto end : {id("tokenizer.ggml.eot_token_id"), id("tokenizer.ggml.eom_token_id")}) {
        if (end) stop.push_back(*end);
    }
    set_stop_tokens(parts, stop);
}

// [CLS] before every text and [SEP] after it, whatever the file says about bos and eos.
void set_bert_frame(const GgufFile& gguf, TokenizerParts& parts) {
    const auto first_of = [&](std::initializer_list<std::string_view> keys, std::string_view piece) {
        for (const std::string_view key : keys) {
            if (const auto id = token_id(gguf, parts.vocab, key)) return id;
        }
        return parts.vocab.find(piece);
    };
    const auto cls = first_of({"tokenizer.ggml.bos_token_id", "tokenizer.ggml.cls_token_id"}, "[CLS]");
    const auto sep = first_of({"tokenizer.ggml.seperator_token_id"}, "[SEP]");  // sic
    if (cls) parts.prefix = {*cls};
    if (sep) parts.suffix = {*sep};
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
    } else if (*model == "gpt2" || *model == "gemma4" || *model == "whitespace") {
        const bool named = *model == "gemma4";  // whatever its pre-tokenizer is called
        const std::string_view pre = named ? *model : gguf.get_string("tokenizer.ggml.pre").value_or("default");
        const GgufPreTokenizer* splits = find_gguf_pre_tokenizer(pre);
        if (splits == nullptr) return fail("tokenizer.ggml.pre '{}' is not a known pre-tokenizer", pre);
        parts = TRY(make_gguf_bpe(gguf, *splits));
        defaults.add_bos = splits->add_bos;
        defaults.always_bos = splits->always_bos;
    } else if (*model == "bert") {
        parts = TRY(make_gguf_word_piece(gguf));
    } else if (*model == "none" || *model == "no_vocab") {
        return fail("tokenizer.ggml.model is '{}': it carries no tokenizer", *model);
    } else {
        return fail("tokenizer.ggml.model '{}' is not supported; {} are", *model, kSupported);
    }
    set_special_tokens(gguf, defaults, *parts);
    if (*model == "bert") set_bert_frame(gguf, *parts);
    return parts;
}

}  // namespace

Result<Tokenizer> parse_gguf_tokenizer(const GgufFile& gguf) {
    auto parts = make_parts(gguf);
    if (!parts) return fail("{}: {}", gguf.name(), parts.error().message);
    return Tokenizer(std::move(parts).value());
}

}  // namespace tandem::text
