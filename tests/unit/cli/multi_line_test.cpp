#include "cli/multi_line.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tandem::cli
