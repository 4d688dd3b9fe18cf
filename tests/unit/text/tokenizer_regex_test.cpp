#include <gtest/gtest.h>

#include "text/regex.h"
#include "text/trie.h"
#include "text/utf8.h"
#include "text/utf8_stream.h"

namespace tandem::text {

namespace {

std::vector<std::string> matches(const std::string& expression, const std::string& text) {
    const auto regex = Regex::compile(expression);
    EXPECT_TRUE(regex) << regex.error().message;
    std::vector<ByteRange> ranges;
    regex->find_all(text, ranges);
    std::vector<std::string> found;
    found.reserve(ranges.size());
    for (const ByteRange& range : ranges) found.push_back(text.substr(range.begin, range.end - range.begin));
    return found;
}

using Matches = std::vector<std::string>;

TEST(Regex, SpaceIsWhatUnicodeCallsWhiteSpace) {
    EXPECT_EQ(matches(R"(\s+)", "a\xC2\x85\xE2\x80\xA8\xE3\x80\x80\tb"),
              (Matches{"\xC2\x85\xE2\x80\xA8\xE3\x80\x80\t"}));
    EXPECT_EQ(matches(R"(\s)", "\xE1\xA0\x8E"), Matches{});  // U+180E is none
    EXPECT_EQ(matches(R"([^\s]+)", "a \xE1\xA0\x8E"), (Matches{"a", "\xE1\xA0\x8E"}));
    EXPECT_EQ(matches(R"([^\S\n]+)", "a \n\xE1\xA0\x8E\t"), (Matches{" ", "\t"}));
    EXPECT_EQ(matches(R"(\S+)", "a\xE1\xA0\x8E b"), (Matches{"a\xE1\xA0\x8E", "b"}));
}

TEST(Regex, ClassesAreUnicode) {
    EXPECT_EQ(matches(R"(\p{L}+|\p{N}+)", "naïve١٢ 日本"), (Matches{"naïve", "١٢", "日本"}));
    EXPECT_EQ(matches(R"(\w+)", "naïve_1 日本"), (Matches{"naïve_1", "日本"}));
    EXPECT_EQ(matches(R"(\w+)", "e\xCC\x81x \xE2\x91\xA0"), (Matches{"e\xCC\x81x"}));  // marks are, U+2460 is not
    EXPECT_EQ(matches(R"(\p{Han}+)", "\xE4\xB8\x80\xE3\x8D\xBF"), (Matches{"\xE4\xB8\x80"}));  // the script alone
    EXPECT_EQ(matches(R"(\W+)", "a\xE2\x91\xA0 b"), (Matches{"\xE2\x91\xA0 "}));
    EXPECT_EQ(matches(R"(x\b)", "x\xCC\x81 x"), (Matches{"x"}));
    EXPECT_EQ(matches(R"(\d+)", "1२3"), (Matches{"1२3"}));
    EXPECT_EQ(matches(R"((?i:'s))", "'s'S'ſ"), (Matches{"'s", "'S", "'ſ"}));
}

TEST(Regex, OnigurumaSyntaxIsTranslated) {
    EXPECT_EQ(matches(R"([a[bc]]+)", "abcd"), (Matches{"abc"}));
    EXPECT_EQ(matches(R"([]a]+)", "]a"), (Matches{"]a"}));
    EXPECT_EQ(matches(R"(\h+)", "fade x"), (Matches{"fade"}));
    EXPECT_EQ(matches(R"(é+)", "éa"), (Matches{"é"}));
    EXPECT_EQ(matches("\\u00e9+", "éa"), (Matches{"é"}));
    EXPECT_EQ(matches("^b", "a\nb"), (Matches{"b"}));
    EXPECT_FALSE(Regex::compile(R"([\p{L}&&\p{Lu}])"));
    EXPECT_FALSE(Regex::compile(R"([a[^b]])"));
}

TEST(Regex, BadExpressionsAreErrors) {
    for (const char* bad : {"(", "[a", "*", "a{2,1}", "\\p{Nonsense}", "\\C"}) EXPECT_FALSE(Regex::compile(bad)) << bad;
    EXPECT_FALSE(Regex::compile(std::string(100000, 'a')));
}

TEST(Regex, EmptyMatchesCountUnlessTheyTouchAnother) {
    EXPECT_EQ(matches("x*", "axxb"), (Matches{"", "xx", ""}));
    EXPECT_EQ(matches("(?=a)", "baa"), (Matches{"", ""}));
}

TEST(Regex, CatastrophicExpressionsGiveUp) {
    EXPECT_EQ(matches("(a+)+$x", std::string(2000, 'a')), Matches{});
}

TEST(Utf8, BrokenPartsBecomeOneReplacementEach) {
    EXPECT_EQ(to_valid_utf8("a\xE2\x96"
                            "b"),
              "a\xEF\xBF\xBD"
              "b");
    EXPECT_EQ(to_valid_utf8("\xFF\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
    EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80").size(), 12U);                          // above U+10FFFF
    EXPECT_TRUE(is_valid_utf8("\xF4\x8F\xBF\xBF\xEE\x80\x80\xC2\x80"));
    EXPECT_TRUE(decode_utf8("\xF0\x9F\x99").incomplete);
    EXPECT_FALSE(decode_utf8("\xF0\x9F\x41").incomplete);
}

TEST(Utf8, StreamHoldsBackWhatIsIncomplete) {
    Utf8Stream stream(BrokenUtf8::one_replacement);
    std::string out;
    stream.push("\xF0\x9F", out);
    EXPECT_EQ(out, "");
    stream.push("\x99\x82\xE2", out);
    EXPECT_EQ(out, "🙂");
    stream.finish(out);
    EXPECT_EQ(out, "🙂\xEF\xBF\xBD");
}

TEST(Trie, FindsEveryPrefix) {
    const Trie trie({{"a", 0}, {"abc", 1}, {"b", 2}, {"ab\xFF", 3}, {"a", 4}, {"", 5}});
    std::vector<std::pair<size_t, int32_t>> found;
    trie.for_each_prefix("abcd", [&](size_t length, int32_t value) { found.emplace_back(length, value); });
    EXPECT_EQ(found, (std::vector<std::pair<size_t, int32_t>>{{1, 0}, {3, 1}}));
    EXPECT_EQ(trie.longest_prefix("ab\xFF").value, 3);
    EXPECT_EQ(trie.longest_prefix("ab").length, 1U);
    EXPECT_EQ(trie.longest_prefix("x").length, 0U);
    EXPECT_EQ(trie.longest_prefix("").length, 0U);
    EXPECT_EQ(Trie().longest_prefix("a").length, 0U);
}

}  // namespace

}  // namespace tandem::text
