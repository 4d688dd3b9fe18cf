#include "user/parse.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tandem::user {
namespace {

constexpr Range<double> kAny{std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};

TEST(ParseNumber, ReadsWhatPeopleWrite) {
    EXPECT_DOUBLE_EQ(*parse_number("0.75", "x", kAny), 0.75);
    EXPECT_DOUBLE_EQ(*parse_number("-2", "x", kAny), -2);
    EXPECT_DOUBLE_EQ(*parse_number("+1e-3", "x", kAny), 1e-3);
}

TEST(ParseNumber, RefusesWhatIsNone) {
    for (const char* text : {"", "warm", "1.5x", "1,5", "nan", " 1", "+-1", "0x10"}) {
        const auto result = parse_number(text, "temperature", kAny);
        ASSERT_FALSE(result) << text;
        EXPECT_NE(result.error().message.find("temperature '"), std::string::npos) << result.error().message;
    }
    EXPECT_FALSE(parse_number("inf", "x", kAny));
    EXPECT_FALSE(parse_number("1e999", "x", kAny));
}

TEST(ParseNumber, NamesTheRange) {
    EXPECT_EQ(parse_number("1.5", "min_p", {.least = 0, .most = 1}).error().message,
              "min_p 1.5: it must be from 0 to 1");
    EXPECT_EQ(parse_number("-1", "temperature", {.least = 0, .most = kAny.most}).error().message,
              "temperature -1: it must be at least 0");
}

TEST(ParseInteger, RefusesFractionsAndOverflow) {
    const Range<int64_t> any{std::numeric_limits<int64_t>::lowest(), std::numeric_limits<int64_t>::max()};
    EXPECT_EQ(*parse_integer("-12", "n", any), -12);
    EXPECT_FALSE(parse_integer("1.5", "n", any));
    EXPECT_FALSE(parse_integer("99999999999999999999", "n", any));
    EXPECT_FALSE(parse_integer("", "n", any));
}

TEST(ParseIds, TakesCommasSpacesAndLines) {
    EXPECT_EQ(*parse_ids("1,2,3"), (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(*parse_ids(" 1 2\n3, 4,,5 "), (std::vector<int32_t>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(parse_ids("")->empty());
}

TEST(ParseIds, RefusesWhatIsNoId) {
    EXPECT_FALSE(parse_ids("1,-2"));
    EXPECT_FALSE(parse_ids("1;2"));
    EXPECT_FALSE(parse_ids("2147483648"));
    EXPECT_EQ(parse_ids("7,seven").error().message, "token id 'seven' is not a whole number");
}

TEST(ParseIds, ReadsAFile) {
    const std::string path = testing::TempDir() + "ids.txt";
    ASSERT_TRUE(write_file(path, "5 6\n7\n"));
    EXPECT_EQ(*parse_ids("@" + path), (std::vector<int32_t>{5, 6, 7}));
    EXPECT_FALSE(parse_ids("@" + path + ".missing"));
}

TEST(CheckVocabulary, NamesTheFirstIdOutside) {
    EXPECT_TRUE(check_vocabulary({0, 9}, 10));
    EXPECT_EQ(check_vocabulary({3, 10, 11}, 10).error().message, "token id 10: the vocabulary has ids from 0 to 9");
    EXPECT_FALSE(check_vocabulary({-1}, 10));
}

TEST(ParseLogitBias, IsAnIdAndAValue) {
    EXPECT_EQ(*parse_logit_bias("42=-1.5"), (std::pair<int32_t, float>{42, -1.5F}));
    for (const char* text : {"42", "=1", "42=", "x=1", "-1=1", "42=nan", "42=inf"})
        EXPECT_FALSE(parse_logit_bias(text)) << text;
}

}  // namespace
}  // namespace tandem::user
