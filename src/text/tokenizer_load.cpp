#include <algorithm>
#include <system_error>

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/json.h"
#include "text/json_fields.h"
#include "text/tokenizer_parts.h"

namespace tandem::text {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored);
}

// A file that says more about the tokenizer; null when it is not there.
Result<json> read_optional_json(const fs::path& path) {
    if (!is_there(path)) return json();
    const std::string text = TRY(read_text_file(path));
    return format::parse_json(text, path.string(), format::kFileJson);
}

// The files of a Hugging Face directory beside the tokenizer itself.
struct Settings {     // NOLINT(bugprone-exception-escape): moving a json throws nothing, though it does not say so
    json tokenizer;   // tokenizer_config.json
    json special;     // special_tokens_map.json
    json generation;  // generation_config.json
    json model;       // config.json

    // "eos_token": "</s>" or {"content": "</s>"}.
    std::optional<std::string> special_token(const char* key) const {
        for (const json* source : {&tokenizer, &special}) {
            if (auto text = string_field(*source, key)) return text;
            if (auto text = string_field(field(*source, key), "content")) return text;
        }
        return std::nullopt;
    }

    // "eos_token_id": 2 or [2, 107].
    std::vector<TokenId> token_ids(const char* key) const {
        std::vector<TokenId> ids;
        for (const json* source : {&generation, &model, &field(model, "text_config")}) {
            const json& value = field(*source, key);
            const json list = value.is_array() ? value : json::array({value});
            for (const json& id : list) {
                if (const auto number = as_int(id); number && *number >= 0 && *number <= INT32_MAX)
                    ids.push_back(static_cast<TokenId>(*number));
            }
        }
        return ids;
    }
};

Result<Settings> read_settings(const format::Checkpoint& checkpoint) {
    const fs::path& directory = checkpoint.path();
    Settings settings;
    settings.tokenizer = TRY(read_optional_json(directory / "tokenizer_config.json"));
    settings.special = TRY(read_optional_json(directory / "special_tokens_map.json"));
    settings.generation = TRY(read_optional_json(directory / "generation_config.json"));
    if (checkpoint.config() != nullptr) settings.model = *checkpoint.config();
    return settings;
}

// Adds the tokens that tokenizer_config.json and added_tokens.json have beyond tokenizer.model.
Status add_tokens(const Settings& settings, const json& added_tokens, std::vector<Piece>& pieces) {
    const size_t limit = pieces.size() + 65536;
    const auto add = [&](int64_t id, const std::string& content, const json& spec) -> Status {
        if (id < 0 || id >= static_cast<int64_t>(limit) || content.size() > Vocabulary::kMaxPieceBytes)
            return fail("added token '{}' has the id {}, which does not fit a vocabulary of {}", content, id,
                        pieces.size());
        const auto index = static_cast<size_t>(id);
        if (index >= pieces.size()) pieces.resize(index + 1, Piece{.text = {}, .kind = PieceKind::unused});
        Piece& piece = pieces[index];
        if (piece.kind == PieceKind::unknown) return Ok{};
        const bool special = bool_field(spec, "special").value_or(false);
        piece = {.text = content,
                 .kind = special ? PieceKind::control : PieceKind::user_defined,
                 .score = piece.score,
                 .lstrip = bool_field(spec, "lstrip").value_or(false),
                 .rstrip = bool_field(spec, "rstrip").value_or(false)};
        return Ok{};
    };
    if (added_tokens.is_object()) {
        for (const auto& [content, id] : added_tokens.items()) TRY(add(as_int(id).value_or(-1), content, json()));
    }
    const json& decoder = field(settings.tokenizer, "added_tokens_decoder");
    if (decoder.is_object()) {
        for (const auto& [id, spec] : decoder.items()) {
            const auto content = string_field(spec, "content");
            const bool is_number =
                !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
            if (!content || !is_number) return fail("added_tokens_decoder: entry '{}' has no id or content", id);
            TRY(add(std::stoll(id), *content, spec));
        }
    }
    return Ok{};
}

Result<std::unique_ptr<TokenizerParts>> load_sentencepiece_directory(const fs::path& directory,
                                                                     const Settings& settings) {
    const fs::path path = directory / "tokenizer.model";
    const MappedFile file = TRY(MappedFile::open(path));
    SentencePieceSpec spec = TRY(parse_sentencepiece_proto(file.bytes(), path.string()));
    const json added_tokens = TRY(read_optional_json(directory / "added_tokens.json"));
    TRY(add_tokens(settings, added_tokens, spec.pieces));
    auto parts = make_sentencepiece_parts(std::move(spec), {.whole_pieces = true, .add_bos = true});
    if (!parts) return fail("{}: {}", path.string(), parts.error().message);
    return parts;
}

void add_or_remove(std::vector<TokenId>& ids, std::optional<TokenId> id, std::optional<bool> wanted) {
    if (!id || !wanted) return;
    const bool there = std::find(ids.begin(), ids.end(), *id) != ids.end();
    if (*wanted && !there) ids.push_back(*id);
    if (!*wanted && there) std::erase(ids, *id);
}

void apply_settings(const Settings& settings, TokenizerParts& parts) {
    const auto set = [&](std::optional<TokenId>& id, const char* name, const char* id_name) {
        const auto text = settings.special_token(name);
        const auto found = text ? parts.vocab.find(*text) : std::nullopt;
        const auto ids = settings.token_ids(id_name);
        if (found)
            id = found;
        else if (!id && !ids.empty() && parts.vocab.contains(ids.front()))
            id = ids.front();
    };
    const auto previous_bos = parts.bos;
    set(parts.bos, "bos_token", "bos_token_id");
    set(parts.eos, "eos_token", "eos_token_id");
    set(parts.pad, "pad_token", "pad_token_id");
    set(parts.unk, "unk_token", "unk_token_id");
    if (previous_bos && parts.bos != previous_bos && parts.prefix == std::vector{*previous_bos})
        parts.prefix = {*parts.bos};
    add_or_remove(parts.prefix, parts.bos, bool_field(settings.tokenizer, "add_bos_token"));
    add_or_remove(parts.suffix, parts.eos, bool_field(settings.tokenizer, "add_eos_token"));
    set_stop_tokens(parts, settings.token_ids("eos_token_id"));
}

}  // namespace

Result<Tokenizer> load_tokenizer(const format::Checkpoint& checkpoint) {
    if (checkpoint.gguf() != nullptr) return parse_gguf_tokenizer(*checkpoint.gguf());
    const fs::path& directory = checkpoint.path();
    const Settings settings = TRY(read_settings(checkpoint));
    std::unique_ptr<TokenizerParts> parts;
    if (const fs::path path = directory / "tokenizer.json"; is_there(path)) {
        const std::string text = TRY(read_text_file(path));
        parts = TRY(make_json_parts(text, path.string()));
    } else if (is_there(directory / "tokenizer.model")) {
        parts = TRY(load_sentencepiece_directory(directory, settings));
    } else {
        return fail("{} has neither tokenizer.json nor tokenizer.model: download one of them too", directory.string());
    }
    apply_settings(settings, *parts);
    return Tokenizer(std::move(parts));
}

Result<Tokenizer> load_tokenizer_file(const fs::path& path) {
    const MappedFile file = TRY(MappedFile::open(path));
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const size_t first = text.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (first != std::string_view::npos && text[first] == '{') return parse_tokenizer_json(text, path.string());
    return parse_sentencepiece_model(file.bytes(), path.string());
}

}  // namespace tandem::text
