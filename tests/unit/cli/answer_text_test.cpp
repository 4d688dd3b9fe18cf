#include "cli/answer_text.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::cli {
namespace {

std::string shown(std::string_view text, size_t size, size_t columns = 0, bool shows_markdown = true) {
    AnswerText answer(shows_markdown, [columns] { return columns; });
    std::string out;
    for (size_t begin = 0; begin < text.size(); begin += size) out += answer.push(text.substr(begin, size));
    return out + answer.finish();
}

// <b>, </b>, <c> and </c> stand for the control sequences.
std::string readable(std::string text) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"\x1b[1m", "<b>"}, {"\x1b[22m", "</b>"}, {"\x1b[36m", "<c>"}, {"\x1b[39m", "</c>"}};
    for (const auto& [sequence, name] : kNames) {
        for (size_t at = text.find(sequence); at != text.npos; at = text.find(sequence))
            text.replace(at, sequence.size(), name);
    }
    return text;
}

void expect_shown(std::string_view text, std::string_view expected, size_t columns = 0) {
    for (const size_t size : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, text.size()})
        EXPECT_EQ(readable(shown(text, size, columns)), expected) << "pieces of " << size;
}

TEST(AnswerText, ShowsBoldAndCode) {
    expect_shown("a **bold** word, `code` and __more__.", "a <b>bold</b> word, <c>code</c> and <b>more</b>.");
    expect_shown("**two words**: ***all***", "<b>two words</b>: <b>all</b>");
    expect_shown("``a `tick` ``", "<c>a `tick` </c>");
    expect_shown("**see `x` here**", "<b>see <c>x</c> here</b>");
    expect_shown("`**not bold**` (**bold**)", "<c>**not bold**</c> (<b>bold</b>)");
}

TEST(AnswerText, MarksWithoutTheirOtherHalfAreText) {
    for (const std::string_view text : {"2 ** 3",
                                        "2**3 = 8 and 3**2 = 9",
                                        "**open",
                                        "`open",
                                        "a ``b` c",
                                        "snake_case_name and *one*",
                                        "5 * 3 * 2",
                                        "*",
                                        "**",
                                        "***",
                                        "****",
                                        "a ** b **",
                                        "**\n**",
                                        "`\n`",
                                        "__",
                                        "a\\b",
                                        "#hash",
                                        "#",
                                        "-",
                                        "-dash",
                                        "--- ",
                                        "####### seven",
                                        "1. one\n2. two",
                                        "~~gone~~",
                                        "``` in a line ```"}) {
        const bool is_raw_line = text.starts_with("```");
        expect_shown(text, is_raw_line ? "<c>" + std::string(text) + "</c>" : std::string(text));
    }
}

TEST(AnswerText, ShowsHeadingsAndLists) {
    expect_shown("# Title\ntext\n### **Small** one\n", "<b>Title</b>\ntext\n<b>Small one</b>\n");
    expect_shown("- one\n* **two**\n  + three\n", "\u2022 one\n\u2022 <b>two</b>\n  \u2022 three\n");
    expect_shown("a - b\n", "a - b\n");
    expect_shown("# open", "<b>open</b>");
}

TEST(AnswerText, CodeIsColouredAndLeftAsItIs) {
    expect_shown("```cpp\nint **p = 1;\n\n# no\n- no `x`\n```\n**yes**",
                 "<c>```cpp</c>\n<c>int **p = 1;</c>\n\n<c># no</c>\n<c>- no `x`</c>\n<c>```</c>\n<b>yes</b>");
    expect_shown("1. do:\n    ```\n    a*b*c **x**\n    ```\n**yes**",
                 "1. do:\n<c>    ```</c>\n<c>    a*b*c **x**</c>\n<c>    ```</c>\n<b>yes</b>");
    expect_shown("```\nopen", "<c>```</c>\n<c>open</c>");
}

TEST(AnswerText, SequencesTakeNoColumns) {
    expect_shown("the **quick** `brown` fox", "the <b>quick</b>\n<c>brown</c> fox", 10);
    expect_shown("- **one two** three", "\u2022 <b>one\ntwo</b>\nthree", 6);
}

TEST(AnswerText, IsTheTextItselfWhereMarkdownIsNotShown) {
    for (const size_t size : {size_t{1}, size_t{5}, size_t{100}})
        EXPECT_EQ(shown("# a **b** `c`\n- d", size, 0, false), "# a **b** `c`\n- d");
}

TEST(AnswerText, HoldsNothingBackForLong) {
    AnswerText answer(true, [] { return size_t{0}; });
    EXPECT_EQ(answer.push("plain text "), "plain text");  // the space waits for a word, as it always does
    const std::string out = answer.push("**" + std::string(1000, 'a') + " b");
    EXPECT_GT(out.size(), 900U);
}

// However it is cut, it comes out the same, and no letter is lost.
TEST(AnswerText, PiecesMakeNoDifference) {
    const std::string letters = "ab *_`#-+~\n  *`";
    std::mt19937 random(7);
    for (int round = 0; round < 2'000; ++round) {
        std::string text;
        for (size_t length = random() % 60; length > 0; --length) text += letters[random() % letters.size()];
        const std::string whole = shown(text, std::max<size_t>(text.size(), 1));
        for (const size_t size : {size_t{1}, size_t{2}, size_t{5}}) ASSERT_EQ(shown(text, size), whole) << text;
        const auto count = [](const std::string& in) {
            return std::count_if(in.begin(), in.end(), [](char c) { return c == 'a' || c == 'b' || c == '\n'; });
        };
        ASSERT_EQ(count(whole), count(text)) << text;
    }
}

}  // namespace
}  // namespace tandem::cli
