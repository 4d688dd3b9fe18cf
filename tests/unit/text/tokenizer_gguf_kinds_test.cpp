// Kinds of GGUF tokenizers beside SentencePiece and byte-level BPE. The ids are those of llama.cpp.

#include <gtest/gtest.h>

#include "gguf_tokenizers.h"

namespace tandem::text {

namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kFirstByte = 6;

// Text as it is, with U+2581 for spaces, and bytes for what has no piece.
format::GgufWriter gemma4_gguf() {
    std::vector<Piece> pieces = {{"<pad>", PieceKind::control},   {"<eos>", PieceKind::control},
                                 {"<bos>", PieceKind::control},   {"<unk>", PieceKind::unknown},
                                 {"<|turn>", PieceKind::control}, {"<turn|>", PieceKind::control}};
    for (int byte = 0; byte < 256; ++byte) pieces.push_back({fmt::format("<0x{:02X}>", byte), PieceKind::byte});
    for (const char* text : {"▁", "a", "b", "ab", "▁ab", "\n", "\n\n"}) pieces.push_back({text});
    auto writer = gguf_of("gemma4", pieces);
    writer.set("tokenizer.ggml.merges", std::vector<std::string>{"a b", "▁ ab"});
    writer.set("tokenizer.ggml.bos_token_id", uint32_t{2});
    writer.set("tokenizer.ggml.eos_token_id", uint32_t{1});
    return writer;
}

TEST(Gemma4Tokenizer, MergesTextWithMarkedSpaces) {
    const auto tokenizer = parse_gguf(gemma4_gguf()).value();
    const EncodeOptions bare = {.add_special = false};
    const Ids ids = {4, 265, 266, 268, 265, kFirstByte + 0xC3, kFirstByte + 0xA9, 5, 267};
    EXPECT_EQ(tokenizer.encode("<|turn>ab ab\n\nabé<turn|>\n", bare), ids);
    EXPECT_EQ(tokenizer.decode(ids), "ab ab\n\nabé\n");
    EXPECT_EQ(tokenizer.decode(ids, false), "<|turn>ab ab\n\nabé<turn|>\n");
    EXPECT_EQ(tokenizer.token_bytes(kFirstByte + 0xC3), "\xC3");
    EXPECT_EQ(tokenizer.stop_tokens(), (Ids{1, 5}));
}

TEST(Gemma4Tokenizer, NewlinesAreOneTokenWhereThereIsOneForAllOfThem) {
    const auto tokenizer = parse_gguf(gemma4_gguf()).value();
    EXPECT_EQ(tokenizer.encode("a\n\nb", {.add_special = false}), (Ids{263, 268, 264}));
    EXPECT_EQ(tokenizer.encode("a\n\n\nb", {.add_special = false}), (Ids{263, 267, 267, 267, 264}));
}

TEST(Gemma4Tokenizer, BeginsWithBosWhateverTheFileSays) {
    auto writer = gemma4_gguf();
    writer.set("tokenizer.ggml.add_bos_token", false);
    EXPECT_EQ(parse_gguf(writer)->encode("a"), (Ids{2, 263}));
}

TEST(Gemma4Tokenizer, ControlTokensAreTextWhereSpecialTokensAreNotParsed) {
    const auto tokenizer = parse_gguf(gemma4_gguf()).value();
    const Ids ids = tokenizer.encode("<|turn>a", {.add_special = false, .parse_special = false});
    EXPECT_EQ(ids.size(), 8);
    EXPECT_EQ(ids.front(), kFirstByte + '<');
    EXPECT_EQ(tokenizer.decode(ids), "<|turn>a");
}

// Words are what lies between spaces; the pieces have none.
TEST(WhitespaceTokenizer, DropsSpacesAndLowersIfItIsTold) {
    std::vector<Piece> pieces = {{"<unk>", PieceKind::unknown}, {"a"}, {"b"}, {"ab"}, {"中"}};
    auto writer = gguf_of("whitespace", pieces);
    writer.set("tokenizer.ggml.pre", "whitespace");
    writer.set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
    EXPECT_EQ(parse_gguf(writer)->encode(" ab a\tb 中"), (Ids{3, 1, 2, 4}));
    EXPECT_EQ(parse_gguf(writer)->encode("AB a"), (Ids{1}));
    writer.set("tokenizer.ggml.normalizer.lowercase", true);
    EXPECT_EQ(parse_gguf(writer)->encode("AB a"), (Ids{3, 1}));
}

format::GgufWriter bert_gguf() {
    std::vector<Piece> pieces;
    for (const std::string text :
         {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "▁un", "want", "ed", "▁the", "▁,", "▁runn",
          "ing",   "▁中",   "▁文",   "▁cafe", "▁!",     "▁'",  "▁s",   "▁$", "▁Caf", "é"})
        pieces.push_back({text, text.starts_with('[') ? PieceKind::control : PieceKind::normal});
    auto writer = gguf_of("bert", pieces);
    writer.set("tokenizer.ggml.unknown_token_id", uint32_t{1});
    writer.set("tokenizer.ggml.cls_token_id", uint32_t{2});
    writer.set("tokenizer.ggml.seperator_token_id", uint32_t{3});
    return writer;
}

TEST(BertTokenizer, CutsWordsIntoTheirLongestPieces) {
    const auto tokenizer = parse_gguf(bert_gguf()).value();
    EXPECT_EQ(tokenizer.encode("UNwanted, the  running\t!"), (Ids{2, 5, 6, 7, 9, 8, 10, 11, 15, 3}));
    EXPECT_EQ(tokenizer.encode("unwantedx the"), (Ids{2, 1, 8, 3}));  // unknown as a whole
    EXPECT_EQ(tokenizer.encode("café中文"), (Ids{2, 14, 12, 13, 3}));
    EXPECT_EQ(tokenizer.encode("CAFE\xCC\x81 $"), (Ids{2, 14, 18, 3}));
    EXPECT_EQ(tokenizer.encode("th\x01\xE2\x80\x8B"
                               "e"),
              (Ids{2, 8, 3}));                            // control and format characters
    EXPECT_EQ(tokenizer.encode("want"), (Ids{2, 1, 3}));  // not at the start of a word
    EXPECT_EQ(tokenizer.encode(""), (Ids{2, 3}));
}

TEST(BertTokenizer, FindsSpecialTokensWhereTheyAreParsed) {
    const auto tokenizer = parse_gguf(bert_gguf()).value();
    EXPECT_EQ(tokenizer.encode("[MASK]the"), (Ids{2, 4, 8, 3}));
    EXPECT_EQ(tokenizer.encode("[MASK] the", {.add_special = false, .parse_special = false}), (Ids{1, 1, 1, 8}));
}

TEST(BertTokenizer, KeepsCaseAndAccentsIfItIsTold) {
    auto writer = bert_gguf();
    writer.set("tokenizer.ggml.normalizer.lowercase", false);
    EXPECT_EQ(parse_gguf(writer)->encode("Café"), (Ids{2, 19, 20, 3}));
    writer.set("tokenizer.ggml.normalizer.strip_accents", true);
    EXPECT_EQ(parse_gguf(writer)->encode("Café"), (Ids{2, 1, 3}));
}

TEST(BertTokenizer, DecodesWords) {
    const auto tokenizer = parse_gguf(bert_gguf()).value();
    EXPECT_EQ(tokenizer.decode(tokenizer.encode("Unwanted, the running!")), "unwanted, the running!");
    EXPECT_EQ(tokenizer.token_bytes(8), " the");
    EXPECT_EQ(tokenizer.token_bytes(11), "ing");
}

TEST(BertTokenizer, NeedsAnUnknownToken) {
    const auto tokenizer = parse_gguf(gguf_of("bert", {{"▁a"}}));
    ASSERT_FALSE(tokenizer);
    EXPECT_EQ(tokenizer.error().message, "test.gguf: it has neither tokenizer.ggml.unknown_token_id nor a token [UNK]");
}

}  // namespace

}  // namespace tandem::text
