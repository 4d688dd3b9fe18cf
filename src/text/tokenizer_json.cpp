#include <algorithm>

#include "format/json.h"
#include "text/bpe.h"
#include "text/json_components.h"
#include "text/json_fields.h"
#include "text/tokenizer_parts.h"
#include "text/unigram.h"
#include "text/utf8.h"
#include "text/word_piece.h"

namespace tandem::text {

using nlohmann::json;

namespace {

// Collects the pieces by id; a file may list them in any order and leave ids out.
class PieceList {
  public:
    explicit PieceList(size_t expected) : limit_(static_cast<int64_t>(expected) * 4 + 65536) {}

    Status add(int64_t id, std::string text, PieceKind kind, bool added = false) {
        if (id < 0 || id >= limit_)
            return fail("token '{}' has the id {}, which is out of range for this vocabulary", text, id);
        if (text.size() > Vocabulary::kMaxPieceBytes)
            return fail("token {} has {} bytes; the limit is {}", id, text.size(), Vocabulary::kMaxPieceBytes);
        const auto index = static_cast<size_t>(id);
        if (index >= pieces_.size()) pieces_.resize(index + 1, Piece{.text = {}, .kind = PieceKind::unused});
        pieces_[index] = {.text = std::move(text), .kind = kind, .added = added};
        return Ok{};
    }

    std::vector<Piece>& pieces() { return pieces_; }

  private:
    int64_t limit_;
    std::vector<Piece> pieces_;
};

// Of BPE and WordPiece: an object of text and id.
Status read_vocab(const json& model, const std::string& type, PieceList& list) {
    const json& vocab = field(model, "vocab");
    if (!vocab.is_object()) return fail("model {} has no 'vocab' object", type);
    const bool byte_fallback = bool_field(model, "byte_fallback").value_or(false);
    for (const auto& [text, id] : vocab.items()) {
        if (!as_int(id)) return fail("token '{}' has no integer id", text);
        const bool is_byte = byte_fallback && parse_byte_piece(text);
        TRY(list.add(*as_int(id), text, is_byte ? PieceKind::byte : PieceKind::normal));
    }
    return Ok{};
}

Status read_unigram_vocab(const json& model, PieceList& list, std::vector<double>& scores) {
    const json& vocab = field(model, "vocab");
    if (!vocab.is_array()) return fail("model Unigram has no 'vocab' list");
    const bool byte_fallback = bool_field(model, "byte_fallback").value_or(false);
    for (const json& entry : vocab) {
        if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
            return fail("entry {} of the Unigram vocabulary is not a [piece, score] pair", scores.size());
        const auto& text = entry[0].get_ref<const std::string&>();
        const bool is_byte = byte_fallback && parse_byte_piece(text);
        TRY(list.add(static_cast<int64_t>(scores.size()), text, is_byte ? PieceKind::byte : PieceKind::normal));
        scores.push_back(entry[1].get<double>());
    }
    return Ok{};
}

struct AddedTokenEntry {
    AddedToken token;
    bool normalized = false;
};

Result<std::vector<AddedTokenEntry>> read_added_tokens(const json& root) {
    std::vector<AddedTokenEntry> entries;
    const json& list = field(root, "added_tokens");
    if (!list.is_array()) return entries;
    for (const json& spec : list) {
        auto content = string_field(spec, "content");
        const auto id = int_field(spec, "id");
        if (!content || !id || *id < 0 || *id > INT32_MAX) return fail("an added token lacks its content or id");
        if (content->empty()) continue;
        const bool special = bool_field(spec, "special").value_or(false);
        AddedTokenEntry entry{.token = {.id = static_cast<TokenId>(*id),
                                        .content = std::move(*content),
                                        .special = special,
                                        .single_word = bool_field(spec, "single_word").value_or(false),
                                        .lstrip = bool_field(spec, "lstrip").value_or(false),
                                        .rstrip = bool_field(spec, "rstrip").value_or(false)},
                              .normalized = bool_field(spec, "normalized").value_or(!special)};
        entries.push_back(std::move(entry));
    }
    return entries;
}

// A token that the model knows already keeps the id it has there.
Status merge_added_tokens(std::vector<AddedTokenEntry>& entries, PieceList& list) {
    const Vocabulary known(list.pieces());
    for (AddedTokenEntry& entry : entries) {
        const auto id = known.find(entry.token.content);
        if (id) entry.token.id = *id;
        const PieceKind kind = entry.token.special ? PieceKind::control : PieceKind::user_defined;
        TRY(list.add(entry.token.id, entry.token.content, kind, !id));
    }
    return Ok{};
}

void set_added_tokens(std::vector<AddedTokenEntry> entries, TokenizerParts& parts) {
    std::vector<AddedToken> plain, normalized;
    for (AddedTokenEntry& entry : entries) {
        if (!entry.normalized) {
            plain.push_back(std::move(entry.token));
            continue;
        }
        if (parts.normalizer) entry.token.content = parts.normalizer->normalize(entry.token.content);
        normalized.push_back(std::move(entry.token));
    }
    parts.added = AddedTokens(std::move(plain));
    parts.added_normalized = AddedTokens(std::move(normalized));
}

Result<std::vector<BpeMerge>> read_merges(const json& model, const Vocabulary& vocab, const BpeOptions& options) {
    std::vector<BpeMerge> merges;
    const json& list = field(model, "merges");
    if (!list.is_array()) return fail("model BPE has no 'merges' list");
    merges.reserve(list.size());
    for (const json& entry : list) {
        std::string_view left, right;
        if (entry.is_string()) {
            const std::string_view line = entry.get_ref<const std::string&>();
            const size_t space = line.find(' ');
            if (space != std::string_view::npos) {
                left = line.substr(0, space);
                right = line.substr(space + 1);
            }
        } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
            left = entry[0].get_ref<const std::string&>();
            right = entry[1].get_ref<const std::string&>();
        }
        if (left.empty() || right.empty()) return fail("merge {} is not a pair of pieces", merges.size());
        const auto merge = find_merge(vocab, left, right, options.continuing_subword_prefix);
        if (!merge)
            return fail("merge {}: '{}', '{}' or what they form is not in the vocabulary", merges.size(), left, right);
        merges.push_back(*merge);
    }
    return merges;
}

Result<TokenModelPtr> make_bpe(const json& model, TokenizerParts& parts) {
    BpeOptions options{.unk = std::nullopt,
                       .fuse_unk = bool_field(model, "fuse_unk").value_or(false),
                       .byte_fallback = bool_field(model, "byte_fallback").value_or(false),
                       .ignore_merges = bool_field(model, "ignore_merges").value_or(false),
                       .continuing_subword_prefix = string_field(model, "continuing_subword_prefix").value_or(""),
                       .end_of_word_suffix = string_field(model, "end_of_word_suffix").value_or("")};
    if (const auto unk = string_field(model, "unk_token")) {
        options.unk = parts.vocab.find(*unk);
        if (!options.unk) return fail("unk_token '{}' is not in the vocabulary", *unk);
    }
    parts.unk = options.unk;
    const auto merges = TRY(read_merges(model, parts.vocab, options));
    return bpe_model(parts.vocab, merges, std::move(options));
}

Result<TokenModelPtr> make_unigram(const json& model, std::vector<double> scores, TokenizerParts& parts) {
    UnigramOptions options{.scores = std::move(scores),
                           .unk = std::nullopt,
                           .byte_fallback = bool_field(model, "byte_fallback").value_or(false)};
    if (const auto unk = int_field(model, "unk_id")) {
        if (*unk < 0 || *unk >= static_cast<int64_t>(options.scores.size()))
            return fail("unk_id {} is not in the vocabulary", *unk);
        options.unk = static_cast<TokenId>(*unk);
    }
    parts.unk = options.unk;
    return unigram_model(parts.vocab, std::move(options));
}

Result<TokenModelPtr> make_word_piece(const json& model, TokenizerParts& parts) {
    const std::string unk = string_field(model, "unk_token").value_or("[UNK]");
    parts.unk = parts.vocab.find(unk);
    if (!parts.unk) return fail("unk_token '{}' is not in the vocabulary", unk);
    const int64_t max_chars = int_field(model, "max_input_chars_per_word").value_or(100);
    if (max_chars < 1) return fail("max_input_chars_per_word is {}; it must be at least 1", max_chars);
    return word_piece_model(parts.vocab,
                            {.unk = *parts.unk,
                             .inside_mark = string_field(model, "continuing_subword_prefix").value_or("##"),
                             .max_word_chars = static_cast<size_t>(max_chars)});
}

// The tokens before and after a text.
struct Frame {
    std::vector<TokenId> prefix, suffix;
};

Status add_ids(const json& ids, const Vocabulary& vocab, std::vector<TokenId>& out) {
    if (!ids.is_array()) return fail("post-processor: a special token has no 'ids'");
    for (const json& id : ids) {
        const auto value = as_int(id);
        if (!value || *value < 0 || *value >= vocab.size())
            return fail("post-processor: id {} is not in the vocabulary", id.dump());
        out.push_back(static_cast<TokenId>(*value));
    }
    return Ok{};
}

Result<Frame> read_template(const json& spec, const Vocabulary& vocab) {
    const json& single = field(spec, "single");
    if (!single.is_array()) return fail("post-processor TemplateProcessing has no 'single' list");
    Frame frame;
    bool after_text = false;
    for (const json& item : single) {
        if (!field(item, "Sequence").is_null()) {
            after_text = true;
            continue;
        }
        const auto name = string_field(field(item, "SpecialToken"), "id");
        if (!name) return fail("post-processor TemplateProcessing: an item is neither Sequence nor SpecialToken");
        const json& token = field(field(spec, "special_tokens"), name->c_str());
        TRY(add_ids(field(token, "ids"), vocab, after_text ? frame.suffix : frame.prefix));
    }
    return frame;
}

// "cls" and "sep" are [text, id] pairs.
Result<Frame> read_bert_frame(const json& spec, const Vocabulary& vocab) {
    Frame frame;
    const json& cls = field(spec, "cls");
    const json& sep = field(spec, "sep");
    if (!cls.is_array() || cls.size() != 2 || !sep.is_array() || sep.size() != 2)
        return fail("post-processor {}: 'cls' and 'sep' must be pairs", type_of(spec));
    TRY(add_ids(json::array({cls[1]}), vocab, frame.prefix));
    TRY(add_ids(json::array({sep[1]}), vocab, frame.suffix));
    return frame;
}

Status apply_post_processor(const json& spec, TokenizerParts& parts) {
    if (spec.is_null()) return Ok{};
    const std::string type = type_of(spec);
    Frame frame;
    if (type == "Sequence") {
        const json& processors = field(spec, "processors");
        if (!processors.is_array()) return fail("post-processor Sequence has no 'processors'");
        for (const json& processor : processors) TRY(apply_post_processor(processor, parts));
        return Ok{};
    }
    if (type == "TemplateProcessing")
        frame = TRY(read_template(spec, parts.vocab));
    else if (type == "BertProcessing" || type == "RobertaProcessing")
        frame = TRY(read_bert_frame(spec, parts.vocab));
    else if (type != "ByteLevel")
        return fail("post-processor '{}' is not supported", type);
    parts.prefix.insert(parts.prefix.begin(), frame.prefix.begin(), frame.prefix.end());
    parts.suffix.insert(parts.suffix.end(), frame.suffix.begin(), frame.suffix.end());
    return Ok{};
}

// A bare tokenizer.json does not say which token is which: the frame and the usual names do.
void guess_special_tokens(TokenizerParts& parts) {
    const auto first_special = [&](std::initializer_list<std::string_view> names) -> std::optional<TokenId> {
        for (const std::string_view name : names) {
            const auto id = parts.vocab.find(name);
            if (id && parts.vocab[*id].kind == PieceKind::control) return id;
        }
        return std::nullopt;
    };
    if (!parts.prefix.empty())
        parts.bos = parts.prefix.front();
    else
        parts.bos = first_special({"<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>"});
    if (!parts.suffix.empty())
        parts.eos = parts.suffix.back();
    else
        parts.eos = first_special({"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>", "<｜end▁of▁sentence｜>"});
    parts.pad = first_special({"<pad>", "[PAD]", "<|finetune_right_pad_id|>"});
}

// Older files do not name it.
std::string model_type(const json& model) {
    if (auto type = string_field(model, "type")) return *type;
    if (field(model, "merges").is_array()) return "BPE";
    return field(model, "vocab").is_object() ? "WordPiece" : "Unigram";
}

Status build(const json& root, TokenizerParts& parts) {
    const json& model = field(root, "model");
    if (!model.is_object()) return fail("it has no 'model'");
    const std::string type = model_type(model);
    if (type != "BPE" && type != "Unigram" && type != "WordPiece")
        return fail("model '{}' is not supported; BPE, Unigram and WordPiece are", type);

    auto added = TRY(read_added_tokens(root));
    PieceList list(field(model, "vocab").size() + added.size());
    std::vector<double> scores;
    if (type == "Unigram")
        TRY(read_unigram_vocab(model, list, scores));
    else
        TRY(read_vocab(model, type, list));
    TRY(merge_added_tokens(added, list));
    parts.vocab = Vocabulary(std::move(list.pieces()));

    parts.normalizer = TRY(make_normalizer(field(root, "normalizer")));
    parts.pre_tokenizers = TRY(make_pre_tokenizers(field(root, "pre_tokenizer")));
    parts.decoder = TRY(make_decoder(field(root, "decoder")));
    set_added_tokens(std::move(added), parts);
    if (type == "BPE")
        parts.model = TRY(make_bpe(model, parts));
    else if (type == "WordPiece")
        parts.model = TRY(make_word_piece(model, parts));
    else
        parts.model = TRY(make_unigram(model, std::move(scores), parts));
    TRY(apply_post_processor(field(root, "post_processor"), parts));
    guess_special_tokens(parts);
    set_stop_tokens(parts);
    return Ok{};
}

}  // namespace

Result<std::unique_ptr<TokenizerParts>> make_json_parts(std::string_view text, std::string_view name) {
    const json root = TRY(format::parse_json(text, name, format::kFileJson));
    auto parts = std::make_unique<TokenizerParts>();
    if (auto status = build(root, *parts); !status) return fail("{}: {}", name, status.error().message);
    return parts;
}

Result<Tokenizer> parse_tokenizer_json(std::string_view text, std::string_view name) {
    return Tokenizer(TRY(make_json_parts(text, name)));
}

}  // namespace tandem::text
