// Any bytes as a prompt, for one small tokenizer of each kind.

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/byte_level.h"
#include "text/detokenizer.h"
#include "text/gguf_pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/utf8.h"

namespace tandem::text {
namespace {

using nlohmann::json;

json special_token(int id) {
    return {{"id", id}, {"content", "<|x|>"}, {"special", true}, {"normalized", false}};
}

// The 256 letters of the alphabet, and the merges of a few words.
Tokenizer byte_level(std::string_view pre_tokenizer) {
    json vocab = json::object();
    for (int byte = 0; byte < 256; ++byte) {
        std::string letter;
        const char raw = static_cast<char>(byte);
        append_byte_level({&raw, 1}, letter);
        vocab.emplace(letter, byte);
    }
    json merges = json::array();
    for (const auto& [left, right] :
         {std::pair("t", "h"), {"th", "e"}, {"Ġ", "the"}, {"Ġ", "Ġ"}, {"ĠĠ", "ĠĠ"}, {"a", "a"}}) {
        merges.push_back({left, right});
        vocab.emplace(std::string(left) + right, static_cast<int>(vocab.size()));
    }
    json splits = json::array();
    for (const std::string_view expression : find_gguf_pre_tokenizer(pre_tokenizer)->expressions)
        splits.push_back({{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}});
    splits.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
    const int next = static_cast<int>(vocab.size());
    const json root = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}},
                       {"added_tokens", json::array({special_token(next)})},
                       {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", splits}}},
                       {"decoder", {{"type", "ByteLevel"}}}};
    return parse_tokenizer_json(root.dump(), "byte level").value();
}

std::vector<Piece> pieces() {
    std::vector<Piece> list = {{"<unk>", PieceKind::unknown, 0}, {"<s>", PieceKind::control, 0}};
    for (int byte = 0; byte < 256; ++byte) list.push_back({fmt::format("<0x{:02X}>", byte), PieceKind::byte, 0});
    float score = -1;
    for (const char* text : {"▁", "a", "b", "aa", "ab", "▁a", "▁▁", "▁▁▁▁", "aaaa", "é", "日"})
        list.push_back({text, PieceKind::normal, score--});
    list.push_back({"<t>", PieceKind::user_defined, 0});
    list.push_back({"\n\n", PieceKind::user_defined, 0});
    return list;
}

Tokenizer sentencepiece(SentencePieceSpec spec, bool whole_pieces = true) {
    spec.pieces = pieces();
    return Tokenizer(make_sentencepiece_parts(std::move(spec), {.whole_pieces = whole_pieces}).value());
}

struct Subject {
    Tokenizer tokenizer;
    bool lossless;  // decode(encode(text)) is the text, but for what is not UTF-8
};

std::vector<Subject> subjects() {
    using Kind = SentencePieceSpec::Kind;
    std::vector<Subject> list;
    for (const char* pre :
         {"gpt-2", "llama-bpe", "qwen2", "gpt-4o", "deepseek-v3", "falcon", "kimi-k2", "exaone-moe", "youtu"})
        list.push_back({byte_level(pre), true});
    for (const Kind kind : {Kind::bpe, Kind::unigram}) {
        SentencePieceSpec spec;
        spec.kind = kind;
        spec.byte_fallback = true;
        spec.remove_extra_whitespaces = false;
        list.push_back({sentencepiece(spec, false), true});
        list.push_back({sentencepiece(spec), false});  // a space comes after every piece that was found whole
        spec.add_dummy_prefix = false;
        list.push_back({sentencepiece(spec), true});
        spec.byte_fallback = false;
        spec.remove_extra_whitespaces = true;
        spec.whitespace_as_suffix = true;
        list.push_back({sentencepiece(spec), false});
    }
    return list;
}

std::string stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    Detokenizer detokenizer(tokenizer, {.skip_special = false});
    std::string all;
    for (const TokenId id : ids) {
        const std::string part = detokenizer.push(id);
        CHECK(is_valid_utf8(part));
        all += part;
    }
    return all + detokenizer.finish();
}

void check(const Subject& subject, std::string_view text) {
    const auto ids = subject.tokenizer.encode(text, {.add_special = false, .parse_special = false});
    for (const TokenId id : ids) CHECK(subject.tokenizer.contains(id));
    const std::string decoded = subject.tokenizer.decode(ids, false);
    CHECK(decoded == stream(subject.tokenizer, ids));
    // A written-out mark is taken for a space.
    if (subject.lossless && is_valid_utf8(text) && text.find(kSpaceMark) == std::string_view::npos)
        CHECK(decoded == text);
    const auto special = subject.tokenizer.encode(text);
    CHECK(stream(subject.tokenizer, special) == subject.tokenizer.decode(special, false));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<Subject> all = subjects();
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const Subject& subject : all) {
        check(subject, text);
        // Any ids, also those that no text encodes to.
        std::vector<TokenId> ids;
        for (const char c : text)
            ids.push_back(static_cast<unsigned char>(c) * 9 % (subject.tokenizer.vocab_size() + 3) - 1);
        const std::string decoded = subject.tokenizer.decode(ids, false);
        CHECK(is_valid_utf8(decoded) && decoded == stream(subject.tokenizer, ids));
    }
    return 0;
}

}  // namespace tandem::text
