#include "user/nearest.h"

#include <gtest/gtest.h>

namespace tandem::user {
namespace {

const std::vector<std::string_view> kWords = {"run", "serve", "inspect", "quantize", "plan"};

TEST(Nearest, FindsWhatFewLettersDiffer) {
    EXPECT_EQ(nearest("sevre", kWords), "serve");  // two letters changed places
    EXPECT_EQ(nearest("inspct", kWords), "inspect");
    EXPECT_EQ(nearest("quantise", kWords), "quantize");
    EXPECT_EQ(nearest("RUN", kWords), "run");
    EXPECT_EQ(nearest("rn", kWords), "run");
    EXPECT_EQ(nearest("runs", kWords), "run");
}

TEST(Nearest, FindsTheRestOfABeginning) {
    EXPECT_EQ(nearest("quant", kWords), "quantize");
    EXPECT_EQ(nearest("ins", kWords), "inspect");
}

TEST(Nearest, AnotherWordIsNotNear) {
    EXPECT_EQ(nearest("pull", kWords), "");
    EXPECT_EQ(nearest("x", kWords), "");
    EXPECT_EQ(nearest("", kWords), "");
    EXPECT_EQ(nearest(std::string(100'000, 'r'), kWords), "");
    EXPECT_EQ(nearest("run", {}), "");
}

TEST(Nearest, TheSuggestionIsPartOfAMessage) {
    EXPECT_EQ(suggestion("serv", kWords), "; did you mean 'serve'?");
    EXPECT_EQ(suggestion("pull", kWords), "");
}

}  // namespace
}  // namespace tandem::user
