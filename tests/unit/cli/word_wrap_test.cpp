#include "cli/word_wrap.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

// The text in pieces of `size` bytes, which may end within words and characters.
std::string wrapped(std::string_view text, size_t columns, size_t size) {
    WordWrap wrap([columns] { return columns; });
    std::string out;
    for (size_t begin = 0; begin < text.size(); begin += size) out += wrap.push(text.substr(begin, size));
    return out + wrap.finish();
}

void expect_wrapped(std::string_view text, size_t columns, std::string_view expected) {
    for (const size_t size : {size_t{1}, size_t{2}, size_t{5}, text.size()}) {
        EXPECT_EQ(wrapped(text, columns, size), expected) << "pieces of " << size;
    }
}

TEST(WordWrap, BreaksBetweenWords) {
    expect_wrapped("the quick brown fox", 10, "the quick\nbrown fox");
    expect_wrapped("the quick brown fox", 9, "the quick\nbrown fox");  // a line may be full to the edge
    expect_wrapped("the quick brown fox", 8, "the\nquick\nbrown\nfox");
}

TEST(WordWrap, LinesOfTheTextStay) {
    expect_wrapped("one\ntwo three\n\n  four\n", 10, "one\ntwo three\n\n  four\n");
    expect_wrapped("- a list item\n", 9, "- a list\nitem\n");
}

TEST(WordWrap, AWordLongerThanTheLineIsLeftToTheTerminal) {
    expect_wrapped("see https://example.org/path now", 12, "see\nhttps://example.org/path\nnow");
    expect_wrapped("abcdefghij kl", 4, "abcdefghij\nkl");
    expect_wrapped("abcdef ij", 5, "abcdef ij");  // the terminal broke it behind "abcde": there is room behind "f"
}

TEST(WordWrap, WideCharactersTakeTwoColumnsAndBreakAnywhere) {
    expect_wrapped("\u72d0\u72f8\u548c\u706f\u7b3c", 6, "\u72d0\u72f8\u548c\n\u706f\u7b3c");
    expect_wrapped("gr\u00fc\u00dfe an alle", 8, "gr\u00fc\u00dfe an\nalle");
    expect_wrapped("e\u0301e\u0301e\u0301 ab", 6, "e\u0301e\u0301e\u0301 ab");  // accents of their own take none
}

TEST(WordWrap, CodeIsLeftAlone) {
    expect_wrapped("look:\n```cpp\nint answer = 42;  // long\n```\nthe end of it", 8,
                   "look:\n```cpp\nint answer = 42;  // long\n```\nthe end\nof it");
    expect_wrapped("~~~~\na b c d e f\n~~~\nstill code here\n~~~~\nno more of it", 8,
                   "~~~~\na b c d e f\n~~~\nstill code here\n~~~~\nno more\nof it");
    expect_wrapped("```in a line``` is no\nblock of any code", 12, "```in a\nline``` is\nno\nblock of any\ncode");
}

TEST(WordWrap, NothingIsLostWithoutAnEdge) {
    const std::string text = "  a b\tc  \n\n```\n x  \n```\n d\xff\xc3";
    expect_wrapped(text, 0, text);
    expect_wrapped(text, 80, text);
}

TEST(WordWrap, TheEdgeMayMove) {
    size_t columns = 20;
    WordWrap wrap([&] { return columns; });
    std::string out = wrap.push("one two three ");
    columns = 8;
    out += wrap.push("four five six");
    out += wrap.finish();
    EXPECT_EQ(out, "one two three\nfour\nfive six");
}

}  // namespace
}  // namespace tandem::cli
