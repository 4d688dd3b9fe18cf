#include "cli/paste.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

// What is pasted, when the terminal sends these bytes and then the end.
std::string pasted(std::string_view bytes) {
    Paste paste;
    for (const char byte : bytes) EXPECT_FALSE(paste.push(byte));
    for (const char byte : kPasteEnd.substr(0, kPasteEnd.size() - 1)) EXPECT_FALSE(paste.push(byte));
    EXPECT_TRUE(paste.push(kPasteEnd.back()));
    return paste.text();
}

TEST(Paste, LinesEndAsTextDoes) {
    EXPECT_EQ(pasted("one\rtwo\r\nthree\nfour"), "one\ntwo\nthree\nfour");
    EXPECT_EQ(pasted("a\r\rb"), "a\n\nb");
}

TEST(Paste, TheEndOfTheLastLineIsNoLine) {
    EXPECT_EQ(pasted("one\r"), "one");
    EXPECT_EQ(pasted("one\r\n\r\n"), "one");
    EXPECT_EQ(pasted(""), "");
}

TEST(Paste, OtherSequencesAreText) {
    EXPECT_EQ(pasted("\x1b[31mred\x1b[201"), "\x1b[31mred\x1b[201");
}

TEST(Paste, BytesThatAreNoTextAreReplaced) {
    EXPECT_EQ(pasted(std::string_view("a\0b\xff", 4)), "ab\xef\xbf\xbd");
}

}  // namespace
}  // namespace tandem::cli
