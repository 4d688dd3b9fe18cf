#include "cli/multi_line.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace tandem::cli {
namespace {

TEST(MultiLine, APlainLineIsComplete) {
    MultiLine input;
    EXPECT_TRUE(input.push("hello"));
    EXPECT_EQ(input.take(), "hello");
    EXPECT_FALSE(input.pending());
}

TEST(MultiLine, ABackslashGoesOn) {
    MultiLine input;
    EXPECT_FALSE(input.push("one\\"));
    EXPECT_TRUE(input.pending());
    EXPECT_FALSE(input.push("two\\"));
    EXPECT_TRUE(input.push("three"));
    EXPECT_EQ(input.take(), "one\ntwo\nthree");
}

TEST(MultiLine, AFenceOpensABlock) {
    MultiLine input;
    EXPECT_FALSE(input.push("\"\"\""));
    EXPECT_FALSE(input.push("a \\"));  // a backslash means nothing inside
    EXPECT_FALSE(input.push(""));
    EXPECT_FALSE(input.push("/bye"));
    EXPECT_TRUE(input.push("\"\"\""));
    EXPECT_EQ(input.take(), "a \\\n\n/bye");
}

TEST(MultiLine, ABlockMayBeginAndEndInItsLines) {
    MultiLine input;
    EXPECT_TRUE(input.push("\"\"\"one line\"\"\""));
    EXPECT_EQ(input.take(), "one line");
    EXPECT_FALSE(input.push("\"\"\"first"));
    EXPECT_TRUE(input.push("last\"\"\""));
    EXPECT_EQ(input.take(), "first\nlast");
}

TEST(MultiLine, TakeForgetsAnUnfinishedInput) {
    MultiLine input;
    EXPECT_FALSE(input.push("\"\"\"half"));
    input.take();
    EXPECT_FALSE(input.pending());
    EXPECT_TRUE(input.push("next"));
    EXPECT_EQ(input.take(), "next");
}

TEST(MultiLine, TheSourceMeansTheSameWhenItIsReadAgain) {
    const std::vector<std::vector<std::string_view>> inputs = {
        {"plain"}, {"one\\", "two"}, {"\"\"\"", "a \\", "/bye", "\"\"\""}, {"\"\"\"/bye\"\"\""}};
    for (const auto& lines : inputs) {
        MultiLine first;
        for (const std::string_view line : lines) first.push(line);
        const std::string source = first.source();
        const std::string text = first.take();
        MultiLine again;
        EXPECT_TRUE(again.push(source)) << source;
        EXPECT_EQ(again.take(), text);
        EXPECT_EQ(again.source(), "");
    }
}

TEST(MultiLine, APastedTextIsALine) {
    MultiLine input;
    EXPECT_TRUE(input.push("for x in y \\\n  do z\ndone"));
    EXPECT_EQ(input.take(), "for x in y \\\n  do z\ndone");
    EXPECT_FALSE(input.push("\"\"\"pasted\ninto a block"));
    EXPECT_TRUE(input.push("\"\"\""));
    EXPECT_EQ(input.take(), "pasted\ninto a block");
}

}  // namespace
}  // namespace tandem::cli
