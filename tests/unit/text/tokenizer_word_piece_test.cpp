// WordPiece in a tokenizer.json, as the BERT family has it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gguf_tokenizers.h"
#include "text/detokenizer.h"

namespace tandem::text {

namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

json bert_json() {
    json vocab;
    for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "##ed", "the", ",", "runn",
                             "##ing", "中",    "文",    "cafe",  "!",      "'",  "s",      "don",  "t",   "a", "##a"})
        vocab.emplace(text, static_cast<int>(vocab.size()));
    json added;
    for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
        added.push_back({{"id", vocab[text]}, {"content", text}, {"special", true}, {"normalized", false}});
    const auto special = [](const char* id) { return json{{"SpecialToken", {{"id", id}, {"type_id", 0}}}}; };
    return {{"model",
             {{"type", "WordPiece"},
              {"vocab", vocab},
              {"unk_token", "[UNK]"},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100}}},
            {"added_tokens", added},
            {"normalizer",
             {{"type", "BertNormalizer"},
              {"clean_text", true},
              {"handle_chinese_chars", true},
              {"strip_accents", nullptr},
              {"lowercase", true}}},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", {special("[CLS]"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special("[SEP]")}},
              {"special_tokens", {{"[CLS]", {{"ids", {vocab["[CLS]"]}}}}, {"[SEP]", {{"ids", {vocab["[SEP]"]}}}}}}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
}

Tokenizer load(const json& root) {
    return parse_tokenizer_json(root.dump(), "test.json").value();
}

Texts encoded(const Tokenizer& tokenizer, const std::string& text, bool add_special = false) {
    return pieces_of(tokenizer, tokenizer.encode(text, {.add_special = add_special}));
}

TEST(WordPieceJson, CutsWordsIntoTheirLongestPieces) {
    const Tokenizer tokenizer = load(bert_json());
    EXPECT_EQ(encoded(tokenizer, "UNwanted, Running", true),
              (Texts{"[CLS]", "un", "##want", "##ed", ",", "runn", "##ing", "[SEP]"}));
    EXPECT_EQ(encoded(tokenizer, "unwantedx the want"), (Texts{"[UNK]", "the", "[UNK]"}));
    EXPECT_EQ(encoded(tokenizer, "Café中文[MASK]the"), (Texts{"cafe", "中", "文", "[MASK]", "the"}));
    EXPECT_EQ(tokenizer.unk(), 1);
    EXPECT_EQ(tokenizer.bos(), 2);
    EXPECT_EQ(tokenizer.eos(), 3);
}

TEST(WordPieceJson, WordsLongerThanTheLimitAreUnknown) {
    const Tokenizer tokenizer = load(bert_json());
    EXPECT_EQ(encoded(tokenizer, std::string(100, 'a')).size(), 100);
    EXPECT_EQ(encoded(tokenizer, std::string(101, 'a')), Texts{"[UNK]"});
}

TEST(WordPieceJson, NormalizesAsItIsTold) {
    json root = bert_json();
    const auto with = [&](const char* option, const json& value) {
        json changed = root;
        changed["normalizer"][option] = value;
        return load(changed);
    };
    EXPECT_EQ(encoded(with("strip_accents", false), "Café"), Texts{"[UNK]"});
    EXPECT_EQ(encoded(with("lowercase", false), "The the"), (Texts{"[UNK]", "the"}));
    EXPECT_EQ(encoded(with("handle_chinese_chars", false), "中文"), Texts{"[UNK]"});
    EXPECT_EQ(encoded(load(root),
                      "th\x07"
                      "e\xC2\xA0the"),
              (Texts{"the", "the"}));
    EXPECT_EQ(encoded(with("clean_text", false),
                      "th\x07"
                      "e"),
              Texts{"[UNK]"});
}

TEST(WordPieceJson, DecodesWords) {
    json root = bert_json();
    const Tokenizer tokenizer = load(root);
    const auto ids = tokenizer.encode("Unwanted, don't the running!");
    EXPECT_EQ(tokenizer.decode(ids), "unwanted, don ' t the running!");
    EXPECT_EQ(tokenizer.decode(ids, false), "[CLS] unwanted, don ' t the running! [SEP]");
    Detokenizer stream(tokenizer);
    std::string streamed;
    for (const TokenId id : ids) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.finish(), tokenizer.decode(ids));
    root["decoder"]["cleanup"] = false;
    EXPECT_EQ(load(root).decode(ids), "unwanted , don ' t the running !");
}

TEST(WordPieceJson, OlderFilesDoNotNameTheModel) {
    json root = bert_json();
    root["model"].erase("type");
    EXPECT_EQ(encoded(load(root), "running"), (Texts{"runn", "##ing"}));
}

TEST(WordPieceJson, ErrorsNameWhatIsWrong) {
    const auto error = [](const char* key, const json& value) {
        json root = bert_json();
        root["model"][key] = value;
        return parse_tokenizer_json(root.dump(), "test.json").error().message;
    };
    EXPECT_EQ(error("unk_token", "?"), "test.json: unk_token '?' is not in the vocabulary");
    EXPECT_EQ(error("vocab", json::array()), "test.json: model WordPiece has no 'vocab' object");
    EXPECT_EQ(error("max_input_chars_per_word", 0), "test.json: max_input_chars_per_word is 0; it must be at least 1");
}

}  // namespace

}  // namespace tandem::text
