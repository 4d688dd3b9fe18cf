#include "cli/tokenizer_metadata.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/json.h"
#include "text/chat_template.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/json_components.h"
#include "text/json_fields.h"
#include "text/spm_model.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace tandem::cli {

namespace {

using format::GgufWriter;
using nlohmann::json;
using text::field;
using text::Piece;
using text::PieceKind;
using text::string_field;
namespace fs = std::filesystem;

// The tokens as the loaded tokenizer has them, and the kind that a GGUF file keeps with each.
std::vector<Piece> collect_pieces(const text::Tokenizer& tokenizer) {
    const text::Vocabulary& vocab = tokenizer.parts().vocab;
    std::vector<Piece> pieces;
    for (text::TokenId id = 0; id < vocab.size(); ++id) {
        Piece piece = vocab[id];
        if (tokenizer.is_special(id) && piece.kind == PieceKind::normal) piece.kind = PieceKind::control;
        if (tokenizer.unk() == id) piece.kind = PieceKind::unknown;
        pieces.push_back(std::move(piece));
    }
    return pieces;
}

// Tokens that only the tokenizer.json adds are found in a text as they stand.
void mark_added_tokens(const json& tokenizer, std::vector<Piece>& pieces) {
    for (const json& token : field(tokenizer, "added_tokens")) {
        const int64_t id = text::int_field(token, "id").value_or(-1);
        if (id < 0 || id >= std::ssize(pieces)) continue;
        Piece& piece = pieces[static_cast<size_t>(id)];
        const bool special = text::bool_field(token, "special").value_or(false);
        if (piece.kind == PieceKind::normal) piece.kind = special ? PieceKind::control : PieceKind::user_defined;
    }
}

void write_pieces(GgufWriter& writer, std::vector<Piece> pieces, int vocab, bool with_scores) {
    while (std::ssize(pieces) < vocab) {
        pieces.push_back({.text = fmt::format("[PAD{}]", pieces.size()), .kind = PieceKind::unused});
    }
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (size_t id = 0; id < pieces.size(); ++id) {
        Piece& piece = pieces[id];
        if (piece.text.empty()) piece = {.text = fmt::format("[PAD{}]", id), .kind = PieceKind::unused};
        tokens.push_back(std::move(piece.text));
        scores.push_back(piece.score);
        types.push_back(static_cast<int32_t>(piece.kind));
    }
    writer.set("tokenizer.ggml.tokens", tokens);
    if (with_scores) writer.set("tokenizer.ggml.scores", scores);
    writer.set("tokenizer.ggml.token_type", types);
}

Status write_sentencepiece(GgufWriter& writer, const fs::path& path, const text::Tokenizer& tokenizer, int vocab) {
    const MappedFile file = TRY(MappedFile::open(path));
    const text::SentencePieceSpec spec = TRY(text::parse_sentencepiece_proto(file.bytes(), path.string()));
    // Scores come from the SentencePiece model; added tokens and their kinds from what was loaded.
    std::vector<Piece> pieces = collect_pieces(tokenizer);
    for (size_t id = 0; id < std::min(pieces.size(), spec.pieces.size()); ++id) {
        pieces[id].score = spec.pieces[id].score;
        if (pieces[id].kind == PieceKind::normal) pieces[id].kind = spec.pieces[id].kind;
    }
    const bool unigram = spec.kind == text::SentencePieceSpec::Kind::unigram;
    writer.set("tokenizer.ggml.model", unigram ? "t5" : "llama");
    writer.set("tokenizer.ggml.pre", "default");
    write_pieces(writer, std::move(pieces), vocab, true);
    writer.set("tokenizer.ggml.add_space_prefix", spec.add_dummy_prefix);
    writer.set("tokenizer.ggml.remove_extra_whitespaces", spec.remove_extra_whitespaces);
    if (unigram && !spec.charsmap.empty()) {
        writer.set("tokenizer.ggml.precompiled_charsmap",
                   std::vector<uint8_t>(spec.charsmap.begin(), spec.charsmap.end()));
    }
    return Ok{};
}

// "a b", or ["a", "b"] in newer files.
Result<std::vector<std::string>> read_merges(const json& model, const std::string& name) {
    std::vector<std::string> merges;
    for (const json& merge : field(model, "merges")) {
        if (merge.is_string()) {
            merges.push_back(merge.get<std::string>());
        } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
            merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
        } else {
            return fail("{}: merge {} is not a pair of pieces", name, merges.size());
        }
    }
    return merges;
}

struct Splitting {
    std::vector<std::string> expressions;
    bool byte_level = false;
};

// What a pre-tokenizer splits by, in order; nothing when GGUF has no word for one of its steps.
std::optional<Splitting> read_splitting(const json& spec) {
    Splitting splitting;
    const json steps = text::type_of(spec) == "Sequence" ? field(spec, "pretokenizers") : json::array({spec});
    for (const json& step : steps) {
        const std::string type = text::type_of(step);
        if (type == "ByteLevel") {
            splitting.byte_level = true;
            if (text::bool_field(step, "use_regex").value_or(true))
                splitting.expressions.emplace_back(text::kGpt2Split);
        } else if (type == "Digits" && text::bool_field(step, "individual_digits").value_or(false)) {
            splitting.expressions.emplace_back(R"(\p{N})");
        } else if (const auto regex = string_field(field(step, "pattern"), "Regex"); type == "Split" && regex) {
            splitting.expressions.push_back(*regex);
        } else {
            return std::nullopt;
        }
    }
    return splitting;
}

// The name in GGUF of a way to split. Of names that mean the same the best known comes first.
Result<std::string_view> find_pre_name(const Splitting& splitting, bool ignore_merges, const std::string& name) {
    static constexpr std::string_view kNames[] = {
        "gpt-2",     "llama-bpe", "smaug-bpe",    "qwen2",      "tekken",         "gpt-4o",     "deepseek-v3",
        "starcoder", "falcon",    "deepseek-llm", "bailingmoe", "deepseek-coder", "seed-coder", "bloom"};
    for (const bool exact : {true, false}) {
        for (const std::string_view candidate : kNames) {
            const text::GgufPreTokenizer* const known = text::find_gguf_pre_tokenizer(candidate);
            if (known == nullptr || (exact && known->ignore_merges != ignore_merges)) continue;
            if (std::equal(known->expressions.begin(), known->expressions.end(), splitting.expressions.begin(),
                           splitting.expressions.end())) {
                return candidate;
            }
        }
    }
    return fail("{}: GGUF has no name for the way its pre-tokenizer splits a text", name);
}

// BPE pieces without scores: a piece counts by the first merge that makes it.
void score_by_merges(const std::vector<std::string>& merges, std::vector<Piece>& pieces) {
    std::map<std::string, size_t> ids;
    for (size_t id = 0; id < pieces.size(); ++id) ids.emplace(pieces[id].text, id);
    for (Piece& piece : pieces) {
        piece.score = -static_cast<float>(merges.size());
        if (piece.kind == PieceKind::normal && text::parse_byte_piece(piece.text)) piece.kind = PieceKind::byte;
    }
    for (size_t rank = merges.size(); rank-- > 0;) {
        std::string merged = merges[rank];
        merged.erase(std::min(merged.find(' ', 1), merged.size() - 1), 1);
        if (const auto found = ids.find(merged); found != ids.end()) {
            pieces[found->second].score = -static_cast<float>(rank);
        }
    }
}

// Whether a text gets a space before its first word.
bool adds_space_prefix(const json& tokenizer) {
    const json& normalizer = field(tokenizer, "normalizer");
    const json steps =
        text::type_of(normalizer) == "Sequence" ? field(normalizer, "normalizers") : json::array({normalizer});
    const bool prepends =
        std::any_of(steps.begin(), steps.end(), [](const json& step) { return text::type_of(step) == "Prepend"; });
    const json& split = field(tokenizer, "pre_tokenizer");
    const auto scheme = string_field(split, "prepend_scheme");
    return prepends || (text::type_of(split) == "Metaspace" && scheme.value_or("always") != "never");
}

Status write_json_tokenizer(GgufWriter& writer, const fs::path& path, const text::Tokenizer& tokenizer, int vocab) {
    const std::string source = TRY(read_text_file(path));
    const std::string name = path.string();
    const json parsed = TRY(format::parse_json(source, name, format::kFileJson));
    const json& model = field(parsed, "model");
    if (!field(model, "merges").is_array()) {
        return fail("{}: only BPE can be written to GGUF; put the tokenizer.model beside it", name);
    }
    std::vector<Piece> pieces = collect_pieces(tokenizer);
    mark_added_tokens(parsed, pieces);
    const std::vector<std::string> merges = TRY(read_merges(model, name));
    const std::optional<Splitting> splitting = read_splitting(field(parsed, "pre_tokenizer"));
    if (splitting && splitting->byte_level) {
        const bool ignore_merges = text::bool_field(model, "ignore_merges").value_or(false);
        writer.set("tokenizer.ggml.model", "gpt2");
        writer.set("tokenizer.ggml.pre", TRY(find_pre_name(*splitting, ignore_merges, name)));
        write_pieces(writer, std::move(pieces), vocab, false);
        writer.set("tokenizer.ggml.merges", merges);
        return Ok{};
    }
    if (!text::bool_field(model, "byte_fallback").value_or(false)) {
        return fail("{}: GGUF has no word for a tokenizer of this kind", name);
    }
    score_by_merges(merges, pieces);
    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.pre", "default");
    write_pieces(writer, std::move(pieces), vocab, true);
    writer.set("tokenizer.ggml.add_space_prefix", adds_space_prefix(parsed));
    return Ok{};
}

void write_special_tokens(GgufWriter& writer, const text::Tokenizer& tokenizer) {
    const auto write_id = [&](std::string_view key, std::optional<text::TokenId> id) {
        if (id) writer.set(key, static_cast<uint32_t>(*id));
    };
    write_id("tokenizer.ggml.bos_token_id", tokenizer.bos());
    write_id("tokenizer.ggml.eos_token_id", tokenizer.eos());
    write_id("tokenizer.ggml.unknown_token_id", tokenizer.unk());
    write_id("tokenizer.ggml.padding_token_id", tokenizer.pad());
    for (const text::TokenId id : tokenizer.stop_tokens()) {
        if (tokenizer.eos() != id) write_id("tokenizer.ggml.eot_token_id", id);
    }
    const auto begins = tokenizer.encode("", {.add_special = true});
    const auto has = [&](std::optional<text::TokenId> id) {
        return id && std::find(begins.begin(), begins.end(), *id) != begins.end();
    };
    writer.set("tokenizer.ggml.add_bos_token", has(tokenizer.bos()));
    writer.set("tokenizer.ggml.add_eos_token", has(tokenizer.eos()));
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

}  // namespace

Result<bool> add_tokenizer_metadata(const format::Checkpoint& checkpoint, int vocab, GgufWriter& writer) {
    const fs::path sentencepiece = checkpoint.path() / "tokenizer.model";
    const fs::path tokenizer_json = checkpoint.path() / "tokenizer.json";
    if (!is_there(sentencepiece) && !is_there(tokenizer_json)) return false;
    const text::Tokenizer tokenizer = TRY(text::load_tokenizer(checkpoint));
    if (is_there(sentencepiece)) {
        TRY(write_sentencepiece(writer, sentencepiece, tokenizer, vocab));
    } else {
        TRY(write_json_tokenizer(writer, tokenizer_json, tokenizer, vocab));
    }
    write_special_tokens(writer, tokenizer);
    const std::optional<text::ChatTemplate> chat_template = TRY(text::load_chat_template(checkpoint));
    if (chat_template) writer.set("tokenizer.chat_template", chat_template->source());
    return true;
}

}  // namespace tandem::cli
