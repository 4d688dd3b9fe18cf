#include "cli/text_output.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(FormatBytes, PicksTheUnit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(26ULL << 30), "26.0 GiB");
}

TEST(FormatCount, PicksTheUnit) {
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1'410'000'000), "1.41 G");
    EXPECT_EQ(format_count(270'000'000), "270.0 M");
}

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

}  // namespace
}  // namespace tandem::cli
