// Tokenizers that come in the metadata of a GGUF file, or in a Hugging Face directory with its settings.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/checkpoint.h"
#include "gguf_tokenizers.h"
#include "text/spm_model.h"
#include "text/tokenizer.h"

namespace tandem::text {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path golden(const std::string& name) {
    return fs::path(TANDEM_TEST_DATA) / "tokenizers" / name;
}

json read_json(const fs::path& path) {
    return json::parse(read_text_file(path).value());
}

SentencePieceSpec sentencepiece_spec(const std::string& name) {
    const auto file = MappedFile::open(golden(name) / "tokenizer.model");
    return parse_sentencepiece_proto(file->bytes(), name).value();
}

// Without the texts that have `left_out` in them: SentencePiece itself adds no dummy prefix after such a piece.
void expect_golden(const Tokenizer& tokenizer, const std::string& name, const std::string& left_out = {}) {
    for (const json& test : read_json(golden(name) / "expected.json")) {
        const auto text = test.at("text").get<std::string>();
        if (!left_out.empty() && text.find(left_out) != std::string::npos) continue;
        const auto ids = test.at("ids").get<std::vector<TokenId>>();
        // In a GGUF file "<bos>" in a text is the token, which SentencePiece itself does not do.
        EXPECT_EQ(tokenizer.encode(text, {.add_special = false, .parse_special = false}), ids) << text;
        EXPECT_EQ(tokenizer.decode(ids), test.at("decoded").get<std::string>()) << text;
    }
}

TEST(GgufTokenizer, GemmaGoesByScores) {
    auto writer = gguf_of("llama", sentencepiece_spec("spm-bpe-gemma").pieces);
    writer.set("tokenizer.ggml.add_space_prefix", false);
    writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    const auto tokenizer = parse_gguf(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_golden(*tokenizer, "spm-bpe-gemma");
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->encode("hi").front(), 1);
    const auto end_of_turn = tokenizer->find("<end_of_turn>");
    ASSERT_TRUE(end_of_turn);
    EXPECT_EQ(tokenizer->stop_tokens(), (std::vector<TokenId>{2, *end_of_turn}));
    const std::string bos(tokenizer->piece(1));
    EXPECT_EQ(tokenizer->encode(bos + "hi", {.add_special = false}), tokenizer->encode("hi"));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("hi"), false), bos + "hi");
}

TEST(GgufTokenizer, T5IsUnigram) {
    const SentencePieceSpec spec = sentencepiece_spec("spm-unigram-llama");
    auto writer = gguf_of("t5", spec.pieces);
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    const auto tokenizer = parse_gguf(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_golden(*tokenizer, "spm-unigram-llama", "<start_of_turn>");
    EXPECT_EQ(tokenizer->encode("hi").back(), 2);
}

format::GgufWriter byte_level_gguf(const std::string& name, const std::string& pre) {
    const json root = read_json(golden(name) / "tokenizer.json");
    const json& vocab = root["model"]["vocab"];
    std::vector<std::string> texts(vocab.size());
    std::vector<int32_t> types(vocab.size(), 1);
    for (const auto& [text, id] : vocab.items()) texts[id.get<size_t>()] = text;
    for (const json& token : root["added_tokens"]) types[token["id"].get<size_t>()] = 3;
    std::vector<std::string> merges;
    for (const json& merge : root["model"]["merges"])
        merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "gpt2");
    writer.set("tokenizer.ggml.pre", pre);
    writer.set("tokenizer.ggml.tokens", texts);
    writer.set("tokenizer.ggml.token_type", types);
    writer.set("tokenizer.ggml.merges", merges);
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{0});
    writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    return writer;
}

TEST(GgufTokenizer, ByteLevelSplitsAsItsNameSays) {
    for (const auto& [name, pre] : {std::pair("bpe-gpt2", "gpt-2"), std::pair("bpe-llama3", "dbrx")}) {
        const auto tokenizer = parse_gguf(byte_level_gguf(name, pre));
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        for (const json& test : read_json(golden(name) / "expected.json")) {
            const auto ids = test.at("ids").get<std::vector<TokenId>>();
            EXPECT_EQ(tokenizer->encode(test.at("text").get<std::string>(), {.add_special = false}), ids);
            EXPECT_EQ(tokenizer->decode(ids), test.at("decoded").get<std::string>());
        }
        EXPECT_EQ(tokenizer->stop_tokens(), (std::vector<TokenId>{0, 2}));  // <|endoftext|> and <|im_end|>
        EXPECT_NE(tokenizer->encode("hi").front(), 1);
    }
}

TEST(GgufTokenizer, EveryKnownPreTokenizerKeepsTheText) {
    const std::string text = "Hello, it's 12345 o'clock!\r\n\n  naïve 日本語 한국 \t¿x? $3.50  ";
    for (const char* pre :
         {"default",   "gpt-2",  "llama-bpe", "qwen2",          "qwen35",      "starcoder",  "falcon", "deepseek-llm",
          "command-r", "tekken", "gpt-4o",    "deepseek-coder", "deepseek-v3", "bloom",      "viking", "bailingmoe",
          "olmo",      "smollm", "refact",    "seed-coder",     "stablelm2",   "chatglm-bpe"}) {
        const auto tokenizer = parse_gguf(byte_level_gguf("bpe-gpt2", pre));
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {.add_special = false})), text) << pre;
    }
}

TEST(GgufTokenizer, SettingsOfTheFileWin) {
    auto writer = byte_level_gguf("bpe-llama3", "llama-bpe");
    EXPECT_EQ(parse_gguf(writer)->encode("hi").front(), 1);  // Llama 3 adds it unless told otherwise
    writer.set("tokenizer.ggml.add_bos_token", false);
    writer.set("tokenizer.ggml.add_eos_token", true);
    writer.set("tokenizer.ggml.eot_token_id", uint32_t{300});
    const auto tokenizer = parse_gguf(writer);
    EXPECT_NE(tokenizer->encode("hi").front(), 1);
    EXPECT_EQ(tokenizer->encode("hi").back(), 0);
    EXPECT_EQ(tokenizer->stop_tokens(), (std::vector<TokenId>{0, 2, 300}));
}

std::vector<Piece> small_vocabulary() {
    return {{"<unk>", PieceKind::unknown, 0},   {"<bos>", PieceKind::control, 0},     {"▁", PieceKind::normal, -1},
            {"a", PieceKind::normal, -2},       {"b", PieceKind::normal, -3},         {"▁a", PieceKind::normal, -4},
            {"  ", PieceKind::user_defined, 0}, {"\n\n", PieceKind::user_defined, 0}, {"ab", PieceKind::normal, -5}};
}

TEST(GgufTokenizer, UserDefinedSpacesAreMatchedBeforeMerging) {
    auto writer = gguf_of("llama", small_vocabulary());
    writer.set("tokenizer.ggml.add_space_prefix", false);
    writer.set("tokenizer.ggml.add_bos_token", false);
    const auto tokenizer = parse_gguf(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a  a"), (std::vector<TokenId>{3, 6, 3}));
    EXPECT_EQ(tokenizer->encode("a   a"), (std::vector<TokenId>{3, 6, 5}));
    EXPECT_EQ(tokenizer->encode("\n\nab"), (std::vector<TokenId>{7, 8}));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3, 6, 5}), "a   a");
}

TEST(GgufTokenizer, ASpaceIsPutBeforeEveryTextAfterASpecialToken) {
    auto writer = gguf_of("llama", small_vocabulary());
    const auto tokenizer = parse_gguf(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a<bos>a", {.add_special = false}), (std::vector<TokenId>{5, 1, 5}));
    EXPECT_EQ(tokenizer->encode("xyza", {.add_special = false}), (std::vector<TokenId>{2, 0, 3}));
}

// The ids are those of llama.cpp.
std::vector<Piece> chat_vocabulary() {
    const auto user_defined = PieceKind::user_defined;
    return {{"<unk>", PieceKind::unknown},    {"<s>", PieceKind::control},          {"</s>", user_defined},
            {"▁", PieceKind::normal, -1},     {"a", PieceKind::normal, -2},         {"b", PieceKind::normal, -3},
            {"▁a", PieceKind::normal, -4},    {"ab", PieceKind::normal, -5},        {"▁ab", PieceKind::normal, -6},
            {"\n", PieceKind::normal, -7},    {"<|im_start|>", user_defined},       {"<|im_end|>", user_defined},
            {"<|user|>", PieceKind::control}, {"<|endoftext|>", PieceKind::control}};
}

format::GgufWriter chat_gguf() {
    auto writer = gguf_of("llama", chat_vocabulary());
    writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    return writer;
}

TEST(GgufTokenizer, UserDefinedPiecesAreSplitOutBeforeTheDummyPrefix) {
    auto writer = chat_gguf();
    auto tokenizer = parse_gguf(writer).value();
    const EncodeOptions bare = {.add_special = false};
    EXPECT_EQ(tokenizer.encode("<|im_start|>ab\na<|im_end|>\n", bare), (std::vector<TokenId>{10, 8, 9, 4, 11, 3, 9}));
    EXPECT_EQ(tokenizer.encode("a<|im_start|> a<|im_end|>", bare), (std::vector<TokenId>{6, 10, 3, 6, 11}));
    EXPECT_EQ(tokenizer.encode("<|im_start|><|im_end|>", bare), (std::vector<TokenId>{10, 11}));
    EXPECT_EQ(tokenizer.encode("<|im_start|>a"), (std::vector<TokenId>{1, 10, 6}));
    EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{10, 8, 11}), "<|im_start|> ab<|im_end|>");

    writer.set("tokenizer.ggml.add_space_prefix", false);
    tokenizer = parse_gguf(writer).value();
    EXPECT_EQ(tokenizer.encode("<|im_start|>ab\na<|im_end|>\n", bare), (std::vector<TokenId>{10, 7, 9, 4, 11, 9}));
}

TEST(GgufTokenizer, UserDefinedPiecesAreFoundWhereSpecialTokensAreNotParsed) {
    const auto tokenizer = parse_gguf(chat_gguf()).value();
    const EncodeOptions text = {.add_special = false, .parse_special = false};
    EXPECT_EQ(tokenizer.encode("<|im_start|>a</s>", text), (std::vector<TokenId>{10, 6, 2}));
    for (const std::string special : {"<s>", "<|user|>"}) {
        const auto ids = tokenizer.encode("a" + special + "b", text);
        EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer.find(special).value()), 0) << special;
    }
}

TEST(GgufTokenizer, T5SplitsUserDefinedPiecesOutAsWell) {
    const std::vector<Piece> pieces = {{"<pad>", PieceKind::control},   {"</s>", PieceKind::control},
                                       {"<unk>", PieceKind::unknown},   {"▁", PieceKind::normal, -2},
                                       {"▁a", PieceKind::normal, -3},   {"a", PieceKind::normal, -3.5F},
                                       {"<x>", PieceKind::user_defined}};
    auto writer = gguf_of("t5", pieces);
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{1});
    const auto tokenizer = parse_gguf(writer).value();
    EXPECT_EQ(tokenizer.encode("a<x>a<x>"), (std::vector<TokenId>{4, 6, 4, 6, 1}));
}

TEST(GgufTokenizer, TokensOfPhi3TakeTheSpacesBehindThemAlong) {
    for (const auto& [key, value] :
         {std::pair("general.name", "Phi-3 mini"), std::pair("general.architecture", "phi3")}) {
        auto writer = chat_gguf();
        writer.set(key, value);
        const auto tokenizer = parse_gguf(writer).value();
        const EncodeOptions bare = {.add_special = false};
        EXPECT_EQ(tokenizer.encode("<|user|>\n ab</s> \n a<|im_end|> b", bare),
                  (std::vector<TokenId>{12, 8, 2, 6, 11, 3, 5}));
        EXPECT_EQ(tokenizer.encode("<s> a<|endoftext|> b", bare), (std::vector<TokenId>{1, 3, 6, 13, 3, 3, 5}));
    }
}

TEST(GgufTokenizer, TheMaskOfJinaTakesTheSpacesBeforeItAlong) {
    auto writer = byte_level_gguf("bpe-gpt2", "jina-v2-code");
    const auto plain = parse_gguf(writer).value();
    auto texts = std::vector<std::string>();
    for (TokenId id = 0; id < plain.vocab_size(); ++id) texts.emplace_back(plain.piece(id));
    texts.push_back("<mask>");
    std::vector<int32_t> types(texts.size(), 1);
    types.back() = 3;
    writer.set("tokenizer.ggml.tokens", texts);
    writer.set("tokenizer.ggml.token_type", types);
    const auto tokenizer = parse_gguf(writer).value();
    const EncodeOptions bare = {.add_special = false};
    EXPECT_EQ(tokenizer.encode("a  <mask> b", bare), tokenizer.encode("a<mask> b", bare));
    EXPECT_NE(tokenizer.encode("a<mask> b", bare), tokenizer.encode("a<mask>b", bare));
}

TEST(GgufTokenizer, WhatEndsATextDependsOnItsCompany) {
    const auto stops = [](const std::vector<std::string>& texts) {
        std::vector<Piece> pieces = {{"<unk>", PieceKind::unknown}};
        for (const std::string& text : texts) pieces.push_back({text, PieceKind::control});
        const auto tokenizer = parse_gguf(gguf_of("llama", pieces)).value();
        return pieces_of(tokenizer, tokenizer.stop_tokens());
    };
    using Texts = std::vector<std::string>;
    EXPECT_EQ(stops({"<|end|>", "<|user|>"}), Texts{"<|end|>"});
    EXPECT_EQ(stops({"<|end|>", "<|return|>", "<|call|>"}), (Texts{"<|return|>", "<|call|>"}));
    EXPECT_EQ(stops({"</s>", "<eos>", "<turn|>", "<|tool_response>"}), (Texts{"<eos>", "<turn|>", "<|tool_response>"}));
}

TEST(GgufTokenizer, ErrorsNameWhatIsMissing) {
    const auto error = [](const format::GgufWriter& writer) {
        const auto result = parse_gguf(writer);
        return result ? std::string() : result.error().message;
    };
    format::GgufWriter writer;
    EXPECT_EQ(error(writer), "test.gguf: it has no tokenizer.ggml.model, so it carries no tokenizer");
    for (const std::string kind : {"rwkv", "plamo2", "hybriddna"}) {
        writer.set("tokenizer.ggml.model", kind);
        EXPECT_EQ(error(writer), "test.gguf: tokenizer.ggml.model '" + kind +
                                     "' is not supported; llama, gpt2, gemma4, whitespace, t5 and bert are");
    }
    writer.set("tokenizer.ggml.model", "none");
    EXPECT_EQ(error(writer), "test.gguf: tokenizer.ggml.model is 'none': it carries no tokenizer");
    writer.set("tokenizer.ggml.model", "llama");
    EXPECT_EQ(error(writer), "test.gguf: it has no tokenizer.ggml.tokens, so it carries no tokenizer");
    writer.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
    writer.set("tokenizer.ggml.scores", std::vector<float>{1});
    EXPECT_EQ(error(writer), "test.gguf: tokenizer.ggml.scores has 1 entries for 2 tokens");
    EXPECT_EQ(error(byte_level_gguf("bpe-gpt2", "novel")),
              "test.gguf: tokenizer.ggml.pre 'novel' is not a known pre-tokenizer");
}

// A Hugging Face directory without weights.
class HuggingFaceDirectory : public testing::Test {
  protected:
    void SetUp() override {
        directory_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
        fs::remove_all(directory_);
        fs::create_directories(directory_);
        write("config.json", R"({"model_type": "llama", "eos_token_id": [1, 9]})");
        std::string safetensors("\x02\0\0\0\0\0\0\0{}", 10);
        write("model.safetensors", safetensors);
    }
    void TearDown() override { fs::remove_all(directory_); }

    void write(const std::string& name, const std::string& content) const {
        ASSERT_TRUE(write_file(directory_ / name, content));
    }
    Result<Tokenizer> load() const { return load_tokenizer(format::Checkpoint::open(directory_).value()); }

    fs::path directory_;
};

TEST_F(HuggingFaceDirectory, TokenizerJsonTakesItsSettingsFromTheFilesBesideIt) {
    fs::copy(golden("bpe-llama3") / "tokenizer.json", directory_);
    write("tokenizer_config.json",
          R"({"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}, "add_bos_token": true})");
    write("generation_config.json", R"({"eos_token_id": 7})");
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    EXPECT_EQ(tokenizer->encode("hi").front(), 1);
    EXPECT_EQ(tokenizer->stop_tokens(), (std::vector<TokenId>{0, 1, 2, 7, 9}));
}

TEST_F(HuggingFaceDirectory, TokenizerModelGetsItsAddedTokens) {
    fs::copy(golden("spm-bpe-gemma") / "tokenizer.model", directory_);
    write("tokenizer_config.json",
          R"({"added_tokens_decoder": {"1500": {"content": "<|extra|>", "special": true}}, "add_bos_token": false})");
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("<|extra|>"), (std::vector<TokenId>{1500}));
    EXPECT_TRUE(tokenizer->is_special(1500));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1500}, false), "<|extra|>");
}

TEST_F(HuggingFaceDirectory, AddedTokensOfATokenizerModelAreSplitOutBeforeTheDummyPrefix) {
    fs::copy(golden("spm-unigram-llama") / "tokenizer.model", directory_);
    write("added_tokens.json", R"({"<tool>": 1500})");
    write("tokenizer_config.json",
          R"({"added_tokens_decoder": {"1501": {"content": "<eats>", "rstrip": true}}, "add_bos_token": false})");
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto word = tokenizer->encode("the");
    const auto after = [&](TokenId id) {
        std::vector<TokenId> ids = {id};
        ids.insert(ids.end(), word.begin(), word.end());
        return ids;
    };
    EXPECT_EQ(tokenizer->encode("<tool>the"), after(1500));
    EXPECT_EQ(tokenizer->encode("<eats>  the"), after(1501));
}

TEST_F(HuggingFaceDirectory, WithoutATokenizerIsAnError) {
    const auto tokenizer = load();
    ASSERT_FALSE(tokenizer);
    EXPECT_NE(tokenizer.error().message.find("neither tokenizer.json nor tokenizer.model"), std::string::npos);
}

}  // namespace

}  // namespace tandem::text
