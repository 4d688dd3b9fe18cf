#include "cli/text_output.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(Escape, MakesOneSafeLine) {
    EXPECT_EQ(escape("plain \xc3\xa4"), "plain \xc3\xa4");
    EXPECT_EQ(escape("a\nb\t\r\\"), "a\\nb\\t\\r\\\\");
    EXPECT_EQ(escape("\x1b[31m"), "\\x1b[31m");
    EXPECT_EQ(escape("\xff\x80"), "\\xff\\x80");
    EXPECT_EQ(escape("\xc2\x9b"), "\\xc2\\x9b");  // a control character of two bytes
}

TEST(EscapeShort, CutsBetweenCharacters) {
    EXPECT_EQ(escape_short("\xc3\xa4\xc3\xa4\xc3\xa4", 2), "\xc3\xa4\xc3\xa4...");
    EXPECT_EQ(escape_short("ab", 2), "ab");
}

TEST(Table, AlignsByCharactersAndLeavesNoTrailingSpace) {
    Table table({"ID", "PIECE"}, {0});
    table.add({"1", "\xc3\xa4"});
    table.add({"100", "b"});
    EXPECT_EQ(table.to_string(), " ID  PIECE\n  1  \xc3\xa4\n100  b\n");
}

TEST(TerminalWidth, CountsColumns) {
    EXPECT_EQ(terminal_width("plain"), 5U);
    EXPECT_EQ(terminal_width("\u72d0\u72f8"), 4U);
    EXPECT_EQ(terminal_width("e\u0301"), 1U);
    EXPECT_EQ(terminal_width("\U0001f98a"), 2U);
}

TEST(TimeLeft, IsWhatTheRestWillTake) {
    EXPECT_EQ(time_left(0.5, 0.5), "");  // too early to tell
    EXPECT_EQ(time_left(10, 0), "");
    EXPECT_EQ(time_left(10, 0.5), "10 s");
    EXPECT_EQ(time_left(10, 0.1), "1:30");
    EXPECT_EQ(time_left(100, 0.01), "2:45:00");
    EXPECT_EQ(time_left(10, 1), "0 s");
}

}  // namespace
}  // namespace tandem::cli
