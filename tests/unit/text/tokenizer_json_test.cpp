// What the components of a tokenizer.json mean, one small tokenizer each.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace tandem::text {

namespace {

using nlohmann::json;
using Pieces = std::vector<std::string>;

// A BPE without merges: every character of the texts below is a token, unknown ones are "?".
json character_model() {
    json vocab = {{"?", 0}};
    for (char c = ' '; c <= '~'; ++c) vocab.emplace(std::string(1, c), static_cast<int>(vocab.size()));
    for (const char* more : {"▁", "Ġ", "Ċ", "é", "Ã", "©", "ß", "ｅ", "\n"})
        vocab.emplace(more, static_cast<int>(vocab.size()));
    return {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}, {"unk_token", "?"}};
}

Result<Tokenizer> make(const json& root) {
    return parse_tokenizer_json(root.dump(), "test.json");
}

// The pieces of the text, joined where the model leaves them apart: it shows the pre-tokenization only when every
// fragment is a token of its own, so the fragments are added to the vocabulary and merges are ignored.
Pieces fragments(const json& pre_tokenizer, const std::string& text, const Pieces& known) {
    json model = character_model();
    for (const std::string& piece : known) model["vocab"].emplace(piece, static_cast<int>(model["vocab"].size()));
    model["ignore_merges"] = true;
    const auto tokenizer = make({{"model", model}, {"pre_tokenizer", pre_tokenizer}});
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    Pieces pieces;
    for (const TokenId id : tokenizer->encode(text)) pieces.emplace_back(tokenizer->piece(id));
    return pieces;
}

std::string normalized(const json& normalizer, const std::string& text) {
    const auto tokenizer =
        make({{"model", character_model()}, {"normalizer", normalizer}, {"decoder", {{"type", "Fuse"}}}});
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return tokenizer->decode(tokenizer->encode(text));
}

json split(const std::string& behavior, const json& pattern = {{"String", "-"}}, bool invert = false) {
    return {{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}};
}

TEST(TokenizerJson, SplitBehaviors) {
    const Pieces known = {"a-", "b--", "-b", "--c", "--", "-a"};
    EXPECT_EQ(fragments(split("Removed"), "a-b--c", known), (Pieces{"a", "b", "c"}));
    EXPECT_EQ(fragments(split("Isolated"), "a-b--c", known), (Pieces{"a", "-", "b", "-", "-", "c"}));
    EXPECT_EQ(fragments(split("MergedWithPrevious"), "a-a--c", known), (Pieces{"a-", "a-", "-", "c"}));
    EXPECT_EQ(fragments(split("MergedWithPrevious"), "-a", known), (Pieces{"-", "a"}));
    EXPECT_EQ(fragments(split("MergedWithNext"), "a-b--b", known), (Pieces{"a", "-b", "-", "-b"}));
    EXPECT_EQ(fragments(split("MergedWithNext"), "b-", known), (Pieces{"b", "-"}));
    EXPECT_EQ(fragments(split("Contiguous"), "a-b--c", known), (Pieces{"a", "-", "b", "--", "c"}));
    EXPECT_EQ(fragments(split("Isolated", {{"Regex", "(?=-)"}}), "a--b", known), (Pieces{"a", "-", "-b"}));
    EXPECT_EQ(fragments(split("Removed", {{"Regex", "[a-z]"}}, true), "a-b--c", known), (Pieces{"a", "b", "c"}));
}

TEST(TokenizerJson, SplitsOfCharacterClasses) {
    const Pieces known = {"ab", "12", "cd", "!!"};
    EXPECT_EQ(fragments({{"type", "Digits"}, {"individual_digits", true}}, "ab12cd", known),
              (Pieces{"ab", "1", "2", "cd"}));
    EXPECT_EQ(fragments({{"type", "Digits"}, {"individual_digits", false}}, "ab12cd", known),
              (Pieces{"ab", "12", "cd"}));
    EXPECT_EQ(fragments({{"type", "Punctuation"}}, "ab!!cd", known), (Pieces{"ab", "!", "!", "cd"}));
    EXPECT_EQ(fragments({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "ab!!cd", known),
              (Pieces{"ab", "!!", "cd"}));
    EXPECT_EQ(fragments({{"type", "Whitespace"}}, " ab !!  cd\n", known), (Pieces{"ab", "!!", "cd"}));
    EXPECT_EQ(fragments({{"type", "WhitespaceSplit"}}, " ab!  cd\xC2\xA0", known), (Pieces{"a", "b", "!", "cd"}));
    EXPECT_EQ(fragments({{"type", "CharDelimiterSplit"}, {"delimiter", "x"}}, "abxcd", known), (Pieces{"ab", "cd"}));
    EXPECT_EQ(fragments({{"type", "BertPreTokenizer"}}, "ab !!cd", known), (Pieces{"ab", "!", "!", "cd"}));
}

TEST(TokenizerJson, MetaspacePrependSchemes) {
    const Pieces known = {"▁ab", "▁cd", "ab", "▁ab▁cd"};
    const auto metaspace = [](const char* scheme, bool split_words = true) {
        return json{{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", split_words}};
    };
    EXPECT_EQ(fragments(metaspace("always"), "ab cd", known), (Pieces{"▁ab", "▁cd"}));
    EXPECT_EQ(fragments(metaspace("always"), " ab cd", known), (Pieces{"▁ab", "▁cd"}));
    EXPECT_EQ(fragments(metaspace("never"), "ab cd", known), (Pieces{"ab", "▁cd"}));
    EXPECT_EQ(fragments(metaspace("first"), "ab cd", known), (Pieces{"▁ab", "▁cd"}));
    EXPECT_EQ(fragments(metaspace("always", false), "ab cd", known), (Pieces{"▁ab▁cd"}));
    EXPECT_EQ(fragments({{"type", "Metaspace"}, {"add_prefix_space", false}}, "ab cd", known), (Pieces{"ab", "▁cd"}));
}

TEST(TokenizerJson, MetaspaceFirstPrependsOnlyWhereTheTextStarts) {
    json model = character_model();
    const auto tokenizer = make({{"model", model},
                                 {"added_tokens", {{{"id", 500}, {"content", "<x>"}, {"special", true}}}},
                                 {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "first"}}}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const auto ids = tokenizer->encode("a<x>b");
    ASSERT_EQ(ids.size(), 4U);
    EXPECT_EQ(tokenizer->piece(ids[0]), "▁");
    EXPECT_EQ(tokenizer->piece(ids[3]), "b");
}

TEST(TokenizerJson, ByteLevelAddsThePrefixSpaceBeforeItSplits) {
    const Pieces known = {"Ġab", "Ġcd"};
    const json with_space = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
    EXPECT_EQ(fragments(with_space, "ab cd", known), (Pieces{"Ġab", "Ġcd"}));
    EXPECT_EQ(fragments(with_space, " ab cd", known), (Pieces{"Ġab", "Ġcd"}));
    const json without = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    EXPECT_EQ(fragments(without, "b\né", known), (Pieces{"b", "Ċ", "Ã", "©"}));
}

TEST(TokenizerJson, Normalizers) {
    EXPECT_EQ(normalized({{"type", "NFC"}}, "e\xCC\x81"), "é");
    EXPECT_EQ(normalized({{"type", "NFKC"}}, "ｅ\xEF\xAC\x81"), "efi");
    EXPECT_EQ(normalized({{"type", "Lowercase"}}, "ABcD"), "abcd");
    EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "  a  "), "a  ");
    EXPECT_EQ(normalized({{"type", "Strip"}, {"strip_left", true}, {"strip_right", true}}, "   "), "");
    EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "▁"}}, "a"), "▁a");
    EXPECT_EQ(normalized({{"type", "Prepend"}, {"prepend", "▁"}}, ""), "");
    EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}, "a b"), "a▁b");
    EXPECT_EQ(normalized({{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}}, "a \n b"), "a b");
    EXPECT_EQ(normalized({{"type", "Nmt"}}, "a\x01\tb"), "a b");
    const json sequence = {{"type", "Sequence"},
                           {"normalizers", {{{"type", "NFD"}}, {{"type", "StripAccents"}}, {{"type", "Lowercase"}}}}};
    EXPECT_EQ(normalized(sequence, "ÉA"), "ea");
}

TEST(TokenizerJson, NormalFormsSurviveLongRunsOfMarks) {
    std::string text = "e";
    for (int i = 0; i < 20000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
    const auto tokenizer = make({{"model", character_model()}, {"normalizer", {{"type", "NFC"}}}});
    ASSERT_TRUE(tokenizer);
    EXPECT_GT(tokenizer->encode(text).size(), 10000U);
}

TEST(TokenizerJson, MergesInTheOrderTheyWereLearned) {
    const json model = {{"type", "BPE"},
                        {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"ab", 4}, {"abc", 5}}},
                        {"merges", {"b c", "a b", "a bc"}}};
    const auto tokenizer = make({{"model", model}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("abc"), (std::vector<TokenId>{5}));
    EXPECT_EQ(tokenizer->encode("abab"), (std::vector<TokenId>{4, 4}));
    EXPECT_EQ(tokenizer->encode("abcz"), (std::vector<TokenId>{5}));  // without an unknown token it disappears
}

TEST(TokenizerJson, UnknownCharactersAreFusedOrNot) {
    json model = {
        {"type", "BPE"}, {"vocab", {{"<unk>", 0}, {"a", 1}}}, {"merges", json::array()}, {"unk_token", "<unk>"}};
    EXPECT_EQ(make({{"model", model}})->encode("xxaxx"), (std::vector<TokenId>{0, 0, 1, 0, 0}));
    model["fuse_unk"] = true;
    EXPECT_EQ(make({{"model", model}})->encode("xxaxx"), (std::vector<TokenId>{0, 1, 0}));
    model["unk_token"] = "missing";
    EXPECT_FALSE(make({{"model", model}}));
}

TEST(TokenizerJson, SubwordPrefixAndSuffixMarkTheirPlaceInAWord) {
    const json model = {{"type", "BPE"},
                        {"vocab", {{"a", 0}, {"##b", 1}, {"##c</w>", 2}, {"ab", 3}, {"##c", 4}, {"abc</w>", 5}}},
                        {"merges", {"a ##b", "ab ##c</w>"}},
                        {"continuing_subword_prefix", "##"},
                        {"end_of_word_suffix", "</w>"}};
    const auto tokenizer = make({{"model", model}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("abc"), (std::vector<TokenId>{5}));
}

json byte_fallback_model() {
    json vocab = {{"<unk>", 0}, {"a", 1}, {"▁", 2}};
    for (int byte = 0; byte < 256; ++byte) vocab.emplace(fmt::format("<0x{:02X}>", byte), 3 + byte);
    return {
        {"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}, {"unk_token", "<unk>"}, {"byte_fallback", true}};
}

TEST(TokenizerJson, GemmaStyleByteFallbackAndDecoder) {
    const json decoder = {{"type", "Sequence"},
                          {"decoders",
                           {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}}}};
    const auto tokenizer =
        make({{"model", byte_fallback_model()},
              {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}},
              {"decoder", decoder}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode(" aé"), (std::vector<TokenId>{2, 1, 3 + 0xC3, 3 + 0xA9}));
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(" aé \n")), " aé \n");
    EXPECT_EQ(tokenizer->token_bytes(3 + 0xC3), "\xC3");
    EXPECT_EQ(tokenizer->token_bytes(2), " ");
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{3 + 0xC3, 1}), "\xEF\xBF\xBD\x61");
}

TEST(TokenizerJson, LlamaStyleDecoderStripsOneSpace) {
    const json decoder = {{"type", "Sequence"},
                          {"decoders",
                           {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}},
                            {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
    const auto tokenizer = make({{"model", byte_fallback_model()}, {"decoder", decoder}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{2, 2, 1}), " a");
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{1, 2}), "a ");
}

TEST(TokenizerJson, StepsAfterFuseSeeTheWholeText) {
    const json decoder = {{"type", "Sequence"},
                          {"decoders",
                           {{{"type", "Fuse"}},
                            {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "x"}},
                            {{"type", "Strip"}, {"content", " "}, {"start", 0}, {"stop", 1}}}}};
    const auto tokenizer = make({{"model", character_model()}, {"decoder", decoder}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("cab  ")), "cx ");
}

TEST(TokenizerJson, MetaspaceDecoderDropsTheFirstMark) {
    const auto tokenizer = make({{"model", character_model()}, {"decoder", {{"type", "Metaspace"}}}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("▁a▁b")), "a b");
}

TEST(TokenizerJson, WithoutADecoderTokensAreJoinedBySpaces) {
    const auto tokenizer = make({{"model", character_model()}});
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("abc")), "a b c");
}

TEST(TokenizerJson, UnigramTakesTheBestPath) {
    const json vocab = json::parse(R"([["<unk>", 0], ["a", -1], ["b", -1], ["ab", -1.5], ["aba", -5]])");
    const json model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
    const auto tokenizer = make({{"model", model}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("aba"), (std::vector<TokenId>{3, 1}));
    EXPECT_EQ(tokenizer->encode("xya"), (std::vector<TokenId>{0, 1}));  // neighbouring unknowns are one
    EXPECT_EQ(tokenizer->unk(), 0);
}

json added(int id, const std::string& content, json more = json::object()) {
    more["id"] = id;
    more["content"] = content;
    return more;
}

TEST(TokenizerJson, AddedTokensAreFoundFirst) {
    const json tokens = {added(500, "<a>", {{"special", true}}), added(501, "<ab>", {{"special", false}}),
                         added(502, "cat", {{"single_word", true}}),
                         added(503, "<l>", {{"lstrip", true}, {"rstrip", true}}),
                         added(504, "ABC", {{"normalized", true}})};
    const auto tokenizer = make({{"model", character_model()},
                                 {"added_tokens", tokens},
                                 {"normalizer", {{"type", "Lowercase"}}},
                                 {"decoder", {{"type", "Fuse"}}}});
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("<a><ab>"), (std::vector<TokenId>{500, 501}));
    EXPECT_EQ(tokenizer->encode("<a>", {.parse_special = false}).size(), 3U);
    EXPECT_EQ(tokenizer->encode("<ab>", {.parse_special = false}), (std::vector<TokenId>{501}));
    EXPECT_EQ(tokenizer->encode("cat"), (std::vector<TokenId>{502}));
    EXPECT_EQ(tokenizer->encode("cats").size(), 4U);
    EXPECT_EQ(tokenizer->encode("acat").size(), 4U);
    EXPECT_EQ(tokenizer->encode(" \n<l>  "), (std::vector<TokenId>{503}));
    EXPECT_EQ(tokenizer->encode("aBc"), (std::vector<TokenId>{504}));
    EXPECT_TRUE(tokenizer->is_special(500));
    EXPECT_FALSE(tokenizer->is_special(501));
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{500, 501}, false), "<a><ab>");
    EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{500, 501}, true), "<ab>");
    EXPECT_EQ(tokenizer->token_bytes(500), "");
}

TEST(TokenizerJson, TheModelDoesNotKnowTheAddedTokens) {
    json model = character_model();
    model["ignore_merges"] = true;
    const json root = {{"model", model},
                       {"added_tokens", {added(500, "<a>", {{"special", true}})}},
                       {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
    EXPECT_EQ(make(root)->encode("b <a>", {.parse_special = false}).size(), 4U);
}

TEST(TokenizerJson, PostProcessorsFrameTheText) {
    json root = {{"model", character_model()},
                 {"added_tokens", {added(500, "<s>", {{"special", true}}), added(501, "</s>", {{"special", true}})}}};
    root["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single",
                               {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                {{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}}}},
                              {"special_tokens", {{"<s>", {{"ids", {500}}}}, {"</s>", {{"ids", {501}}}}}}};
    auto tokenizer = make(root);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode("a").front(), 500);
    EXPECT_EQ(tokenizer->encode("a").back(), 501);
    EXPECT_EQ(tokenizer->encode("a", {.add_special = false}).size(), 1U);
    EXPECT_EQ(tokenizer->bos(), 500);
    EXPECT_EQ(tokenizer->eos(), 501);
    EXPECT_EQ(tokenizer->stop_tokens(), (std::vector<TokenId>{501}));

    root["post_processor"] = {
        {"type", "Sequence"},
        {"processors",
         {{{"type", "ByteLevel"}}, {{"type", "RobertaProcessing"}, {"cls", {"<s>", 500}}, {"sep", {"</s>", 501}}}}}};
    tokenizer = make(root);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokenizer->encode(""), (std::vector<TokenId>{500, 501}));
}

TEST(TokenizerJson, WhatIsNotSupportedIsNamed) {
    const json model = character_model();
    const auto error = [](const json& root) {
        const auto result = make(root);
        return result ? std::string() : result.error().message;
    };
    EXPECT_EQ(error({{"model", {{"type", "WordLevel"}}}}),
              "test.json: model 'WordLevel' is not supported; BPE, Unigram and WordPiece are");
    EXPECT_EQ(error({{"model", model}, {"normalizer", {{"type", "Odd"}}}}),
              "test.json: normalizer 'Odd' is not supported");
    EXPECT_EQ(error({{"model", model}, {"pre_tokenizer", {{"type", "Odd"}}}}),
              "test.json: pre-tokenizer 'Odd' is not supported");
    EXPECT_EQ(error({{"model", model}, {"decoder", {{"type", "Odd"}}}}), "test.json: decoder 'Odd' is not supported");
    EXPECT_EQ(error({{"model", model}, {"post_processor", {{"type", "Odd"}}}}),
              "test.json: post-processor 'Odd' is not supported");
    EXPECT_NE(error({{"model", model}, {"pre_tokenizer", split("Isolated", {{"Regex", "(["}})}}), "");
    EXPECT_NE(error({{"model", model}, {"pre_tokenizer", split("Sideways")}}), "");
}

TEST(TokenizerJson, AbsurdFilesAreErrors) {
    for (const char* text : {"", "{}", "[]", "null", "{\"model\":{}}", "{\"model\":{\"type\":\"BPE\"}}",
                             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000},\"merges\":[]}}",
                             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
                             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
                             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
                             "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
                             "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":7}}"})
        EXPECT_FALSE(parse_tokenizer_json(text, "x")) << text;
}

}  // namespace

}  // namespace tandem::text
