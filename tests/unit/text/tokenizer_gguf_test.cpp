// Tokenizers that come in the metadata of a GGUF file, or in a Hugging Face directory with its settings.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
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

Result<Tokenizer> parse(const format::GgufWriter& writer) {
    static std::vector<std::vector<std::byte>> files;  // the parsed file refers to them
    files.push_back(writer.to_bytes().value());
    const auto gguf = format::GgufFile::parse(files.back(), "test.gguf");
    if (!gguf) return gguf.error();
    return parse_gguf_tokenizer(*gguf);
}

void set_pieces(format::GgufWriter& writer, const std::vector<Piece>& pieces) {
    std::vector<std::string> texts;
    std::vector<float> scores;
    std::vector<int32_t> types;
    for (const Piece& piece : pieces) {
        texts.push_back(piece.text);
        scores.push_back(piece.score);
        types.push_back(static_cast<int32_t>(piece.kind));
    }
    writer.set("tokenizer.ggml.tokens", texts);
    writer.set("tokenizer.ggml.scores", scores);
    writer.set("tokenizer.ggml.token_type", types);
}

SentencePieceSpec sentencepiece_spec(const std::string& name) {
    const auto file = MappedFile::open(golden(name) / "tokenizer.model");
    return parse_sentencepiece_proto(file->bytes(), name).value();
}

void expect_golden(const Tokenizer& tokenizer, const std::string& name) {
    for (const json& test : read_json(golden(name) / "expected.json")) {
        const auto text = test.at("text").get<std::string>();
        const auto ids = test.at("ids").get<std::vector<TokenId>>();
        // In a GGUF file "<bos>" in a text is the token, which SentencePiece itself does not do.
        EXPECT_EQ(tokenizer.encode(text, {.add_special = false, .parse_special = false}), ids) << text;
        EXPECT_EQ(tokenizer.decode(ids), test.at("decoded").get<std::string>()) << text;
    }
}

TEST(GgufTokenizer, GemmaGoesByScores) {
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "llama");
    set_pieces(writer, sentencepiece_spec("spm-bpe-gemma").pieces);
    writer.set("tokenizer.ggml.add_space_prefix", false);
    writer.set("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    const auto tokenizer = parse(writer);
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
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "t5");
    set_pieces(writer, spec.pieces);
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
    const auto tokenizer = parse(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    expect_golden(*tokenizer, "spm-unigram-llama");
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
        const auto tokenizer = parse(byte_level_gguf(name, pre));
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
        const auto tokenizer = parse(byte_level_gguf("bpe-gpt2", pre));
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {.add_special = false})), text) << pre;
    }
}

TEST(GgufTokenizer, SettingsOfTheFileWin) {
    auto writer = byte_level_gguf("bpe-llama3", "llama-bpe");
    EXPECT_EQ(parse(writer)->encode("hi").front(), 1);  // Llama 3 adds it unless told otherwise
    writer.set("tokenizer.ggml.add_bos_token", false);
    writer.set("tokenizer.ggml.add_eos_token", true);
    writer.set("tokenizer.ggml.eot_token_id", uint32_t{300});
    const auto tokenizer = parse(writer);
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
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "llama");
    set_pieces(writer, small_vocabulary());
    writer.set("tokenizer.ggml.add_space_prefix", false);
    writer.set("tokenizer.ggml.add_bos_token", false);
    const auto tokenizer = parse(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a  a"), (std::vector<TokenId>{3, 6, 3}));
    EXPECT_EQ(tokenizer->encode("a   a"), (std::vector<TokenId>{3, 6, 5}));
    EXPECT_EQ(tokenizer->encode("\n\nab"), (std::vector<TokenId>{7, 8}));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3, 6, 5}), "a   a");
}

TEST(GgufTokenizer, ASpaceIsPutBeforeEveryTextAfterASpecialToken) {
    format::GgufWriter writer;
    writer.set("tokenizer.ggml.model", "llama");
    set_pieces(writer, small_vocabulary());
    const auto tokenizer = parse(writer);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a<bos>a", {.add_special = false}), (std::vector<TokenId>{5, 1, 5}));
    EXPECT_EQ(tokenizer->encode("xyza", {.add_special = false}), (std::vector<TokenId>{2, 0, 3}));
}

TEST(GgufTokenizer, ErrorsNameWhatIsMissing) {
    const auto error = [](const format::GgufWriter& writer) {
        const auto result = parse(writer);
        return result ? std::string() : result.error().message;
    };
    format::GgufWriter writer;
    EXPECT_EQ(error(writer), "test.gguf: it has no tokenizer.ggml.model, so it carries no tokenizer");
    writer.set("tokenizer.ggml.model", "bert");
    EXPECT_EQ(error(writer), "test.gguf: tokenizer.ggml.model 'bert' is not supported; llama, gpt2 and t5 are");
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

TEST_F(HuggingFaceDirectory, WithoutATokenizerIsAnError) {
    const auto tokenizer = load();
    ASSERT_FALSE(tokenizer);
    EXPECT_NE(tokenizer.error().message.find("neither tokenizer.json nor tokenizer.model"), std::string::npos);
}

}  // namespace

}  // namespace tandem::text
