#include <gtest/gtest.h>

#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_parts.h"

namespace tandem::text {

namespace {

// A protocol buffer, field by field.
class Proto {
  public:
    Proto& text(uint32_t number, std::string_view value) {
        return varint(number << 3 | 2U).varint(value.size()).raw(value);
    }
    Proto& number(uint32_t number, uint64_t value) { return varint(number << 3).varint(value); }
    Proto& real(uint32_t number, float value) {
        return varint(number << 3 | 5U).raw({reinterpret_cast<const char*>(&value), sizeof(value)});
    }
    const std::string& bytes() const { return bytes_; }

  private:
    Proto& varint(uint64_t value) {
        for (; value > 127; value >>= 7) bytes_ += static_cast<char>(value | 128U);
        bytes_ += static_cast<char>(value);
        return *this;
    }
    Proto& raw(std::string_view value) {
        bytes_ += value;
        return *this;
    }
    std::string bytes_;
};

std::string piece(std::string_view text, float score, int kind = 1) {
    return Proto().text(1, text).real(2, score).number(3, static_cast<uint64_t>(kind)).bytes();
}

Result<Tokenizer> parse(const std::string& model) {
    return parse_sentencepiece_model(std::as_bytes(std::span(model)), "test.model");
}

Proto small_model() {
    Proto model;
    model.text(1, piece("<unk>", 0, 2)).text(1, piece("<s>", 0, 3)).text(1, piece("</s>", 0, 3));
    for (const char* text : {"▁", "a", "b"}) model.text(1, piece(text, -3));
    return model.text(1, piece("▁a", -1)).text(1, piece("ab", -2)).text(1, piece("[x]", 0, 4));
}

TEST(SentencePiece, ReadsTheSettingsOfAModel) {
    const std::string trainer = Proto().number(3, 2).text(44, "?").bytes();
    const std::string normalizer = Proto().number(3, 1).number(4, 0).number(5, 1).bytes();
    const auto tokenizer = parse(small_model().text(2, trainer).text(3, normalizer).bytes());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->vocab_size(), 9);
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    EXPECT_EQ(tokenizer->unk(), 0);
    EXPECT_EQ(tokenizer->pad(), std::nullopt);
    EXPECT_EQ(tokenizer->encode("ab"), (std::vector<TokenId>{1, 6, 5}));
    EXPECT_EQ(tokenizer->encode("bab", {.add_special = false}), (std::vector<TokenId>{3, 5, 7}));
    EXPECT_EQ(tokenizer->encode("a[x]zz<s>", {.add_special = false}), (std::vector<TokenId>{6, 8, 0}));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 6, 8, 0, 6}), "a[x]? a");
    EXPECT_EQ(tokenizer->token_bytes(6), " a");
    EXPECT_EQ(tokenizer->token_bytes(1), "");
    EXPECT_EQ(tokenizer->piece(6), "▁a");
    EXPECT_EQ(tokenizer->piece(99), "");
    EXPECT_EQ(tokenizer->piece(-1), "");
    EXPECT_TRUE(tokenizer->is_special(1));
    EXPECT_FALSE(tokenizer->is_special(8));
}

TEST(SentencePiece, UnigramUserDefinedPiecesAlwaysWin) {
    const auto tokenizer = parse(small_model().text(1, piece("[x]a", -0.01F)).bytes());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("[x]", {.add_special = false}), (std::vector<TokenId>{3, 8}));
}

TEST(SentencePiece, BrokenModelsAreErrors) {
    const std::string good = small_model().bytes();
    EXPECT_FALSE(parse(""));
    EXPECT_FALSE(parse("not a model"));
    EXPECT_FALSE(parse(good.substr(0, good.size() - 1)));
    EXPECT_FALSE(parse(Proto().text(1, piece("a", 0, 9)).bytes()));
    EXPECT_FALSE(parse(Proto().text(1, piece("a", std::numeric_limits<float>::quiet_NaN())).bytes()));
    EXPECT_FALSE(parse(Proto().text(1, piece(std::string(5000, 'a'), 0)).bytes()));
    EXPECT_FALSE(parse(small_model().text(2, Proto().number(3, 4).bytes()).bytes()));   // characters
    EXPECT_FALSE(parse(small_model().text(2, Proto().number(35, 1).bytes()).bytes()));  // bytes that are not there
    EXPECT_FALSE(parse(small_model().text(3, Proto().text(2, "xy").bytes()).bytes()));
    EXPECT_FALSE(parse(small_model().text(3, Proto().text(2, std::string("\xFF\xFF\0\0abc", 7)).bytes()).bytes()));
}

TEST(SentencePiece, AHostileCharsmapIsSearchedWithinItsBounds) {
    std::string blob("\x0C\0\0\0", 4);
    blob += std::string(12, '\xFF') + "abc";
    const auto tokenizer = parse(small_model().text(3, Proto().text(2, blob).bytes()).bytes());
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a", {.add_special = false}), (std::vector<TokenId>{6}));
}

// All 256 bytes and nothing else but letters.
Tokenizer byte_tokenizer(bool add_dummy_prefix) {
    SentencePieceSpec spec;
    spec.kind = SentencePieceSpec::Kind::bpe;
    spec.add_dummy_prefix = add_dummy_prefix;
    spec.remove_extra_whitespaces = false;
    spec.byte_fallback = true;
    spec.pieces = {{"<unk>", PieceKind::unknown, 0},
                   {"<s>", PieceKind::control, 0},
                   {"▁", PieceKind::normal, 0},
                   {"a", PieceKind::normal, 0},
                   {"▁a", PieceKind::normal, 0}};
    for (int byte = 0; byte < 256; ++byte) spec.pieces.push_back({fmt::format("<0x{:02X}>", byte), PieceKind::byte, 0});
    return Tokenizer(make_sentencepiece_parts(std::move(spec), {}).value());
}

TEST(Detokenizer, NeverGivesOutHalfACharacter) {
    const Tokenizer tokenizer = byte_tokenizer(true);
    Detokenizer stream(tokenizer);
    std::vector<std::string> parts;
    for (const TokenId id : tokenizer.encode("a🙂a")) parts.push_back(stream.push(id));
    EXPECT_EQ(parts, (std::vector<std::string>{"a", "", "", "", "🙂", "a"}));
    EXPECT_EQ(stream.finish(), "");
}

TEST(Detokenizer, BrokenBytesBecomeReplacements) {
    const Tokenizer tokenizer = byte_tokenizer(true);
    const auto byte = [](int value) { return static_cast<TokenId>(5 + value); };
    Detokenizer stream(tokenizer);
    EXPECT_EQ(stream.push(byte(0xE2)), "");
    EXPECT_EQ(stream.push(byte(0x96)), "");
    EXPECT_EQ(stream.push(3),
              "\xEF\xBF\xBD\xEF\xBF\xBD"
              "a");
    EXPECT_EQ(stream.push(byte(0xF0)), "");
    EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
    EXPECT_EQ(tokenizer.token_bytes(byte(0xE2)), "\xE2");
}

TEST(Detokenizer, KeepsTheLeadingSpaceOfAContinuation) {
    const Tokenizer tokenizer = byte_tokenizer(true);
    EXPECT_EQ(Detokenizer(tokenizer).push(4), "a");
    EXPECT_EQ(Detokenizer(tokenizer, {.continues_text = true}).push(4), " a");
    EXPECT_EQ(Detokenizer(byte_tokenizer(false)).push(4), " a");
}

TEST(Tokenizer, AcceptsAnyBytes) {
    const Tokenizer tokenizer = byte_tokenizer(false);
    const std::string text("a\0\xFF\x80 \xED\xA0\x80", 8);
    const std::string replacement = "\xEF\xBF\xBD";
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)),
              std::string("a\0", 2) + replacement + replacement + " " + replacement + replacement + replacement);
    EXPECT_TRUE(tokenizer.encode("").empty());
}

TEST(Tokenizer, LongRunsOfOneLetterAreNoTrouble) {
    const Tokenizer tokenizer = byte_tokenizer(true);
    const std::string letters(300000, 'a');
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(letters)), letters);
    const std::string spaces(300000, ' ');
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(spaces)), spaces);
}

}  // namespace

}  // namespace tandem::text
