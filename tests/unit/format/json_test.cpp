#include "format/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <nlohmann/json.hpp>

namespace tandem::format {
namespace {

using testing::HasSubstr;
using OrderedJson = nlohmann::ordered_json;

std::string joined(size_t count, const std::function<std::string(size_t)>& item) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + item(i);
    return text;
}

std::string object_with(size_t keys) {
    return "{" + joined(keys, [](size_t i) { return fmt::format(R"("k{}":{})", i, i); }) + "}";
}

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
    const auto parsed = parse_json(text, "x", limits);
    const auto ordered = parse_ordered_json(text, "x", limits);
    EXPECT_EQ(static_cast<bool>(parsed), static_cast<bool>(ordered));
    return parsed ? "" : parsed.error().message;
}

TEST(ParseJson, BuildsWhatWasWritten) {
    const std::string text =
        R"({"b":[1,-2,3.5,true,false,null,"x\n\u00e9",[],{}],"a":{"z":{"y":[[1],[2]]}},"":18446744073709551615})";
    EXPECT_EQ(parse_ordered_json(text, "x")->dump(), R"({"b":[1,-2,3.5,true,false,null,"x\né",[],{}],)"
                                                     R"("a":{"z":{"y":[[1],[2]]}},"":18446744073709551615})");
    EXPECT_EQ(*parse_json(text, "x"), nlohmann::json::parse(text));
    for (const char* const one : {"1", "\"a\"", "null", " [ ] ", "{}"}) {
        EXPECT_EQ(*parse_ordered_json(one, "x"), OrderedJson::parse(one));
    }
    for (const char* const wrong : {"", "1 2", "{\"a\"}", "[1,]", "{,}", "\"\xff\"", "1e999", "nul", "[1}", "{1:2}"}) {
        EXPECT_THAT(refusal(wrong), HasSubstr("x: not valid JSON: ")) << wrong;
    }
}

TEST(ParseJson, TakesTheLastValueOfAKeyAtThePlaceOfTheFirst) {
    const std::string text = R"({"b":1,"a":2,"b":{"x":1,"x":2},"c":3,"a":4,"b":5})";
    EXPECT_EQ(parse_ordered_json(text, "x")->dump(), R"({"b":5,"a":4,"c":3})");
    EXPECT_EQ(parse_json(text, "x")->dump(), R"({"a":4,"b":5,"c":3})");
}

// What a search through all keys for each of them makes of this takes minutes.
TEST(ParseJson, ReadsTheObjectsOfVocabularies) {
    constexpr size_t kKeys = 300'000;
    const auto ordered = parse_ordered_json(object_with(kKeys), "x", kFileJson);
    ASSERT_TRUE(ordered);
    EXPECT_EQ(ordered->size(), kKeys);
    EXPECT_EQ(ordered->begin().key(), "k0");
    EXPECT_EQ(ordered->back(), kKeys - 1);
    EXPECT_EQ(parse_json(object_with(kKeys), "x", kFileJson)->size(), kKeys);
}

TEST(ParseJson, BoundsWhatIsMade) {
    EXPECT_EQ(refusal(object_with(4096)), "");
    EXPECT_EQ(refusal(object_with(4097)), "x: more than 4096 keys in one object");
    EXPECT_EQ(refusal("{" + joined(4097, [](size_t) { return R"("k":1)"; }) + "}"),
              "x: more than 4096 keys in one object")
        << "one that is repeated counts each time";
    const JsonLimits few = {.values = 6, .members = 3, .keys = 2};
    EXPECT_EQ(refusal(R"([{"a":1,"b":2}])", few), "");
    EXPECT_EQ(refusal(R"([{"a":1},{"a":1}])", few), "");
    EXPECT_EQ(refusal(R"([{"a":1,"b":2},{"a":1,"b":2}])", few), "x: more than 3 keys");
    EXPECT_EQ(refusal("[1,2,3,4,5]", few), "");
    const JsonLimits short_numbers = {.fractions = 2, .digits = 5};
    EXPECT_EQ(refusal("[1.5,2.5,12345]", short_numbers), "");
    EXPECT_EQ(refusal("[1.5,2.5,3.5]", short_numbers), "x: more than 2 fractions");
    EXPECT_EQ(refusal("[-12345]", short_numbers), "x: a number has more than 5 characters");
    EXPECT_EQ(refusal(R"(["123456789", "\\", "\"123456"])", short_numbers), "");
    EXPECT_THAT(refusal(R"(["a\"])"), testing::HasSubstr("a string has no end"));
    EXPECT_THAT(refusal("\""), testing::HasSubstr("a string has no end"));
    EXPECT_EQ(refusal("[1,2,3,4,5,6]", few), "x: more than 6 values");
    EXPECT_EQ(refusal("[[],[],[],[],[],[]]", few), "x: more than 6 values");
}

TEST(ParseJson, BoundsTheDepth) {
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_EQ(refusal(nested(64)), "");
    EXPECT_EQ(refusal(nested(65)), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(nested(1000000)), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(std::string(1000000, '[')), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(nested(3), {.depth = 2}), "x: nested deeper than 2 levels");
}

TEST(ParseJson, KeepsErrorsShort) {
    EXPECT_LT(refusal("\"" + std::string(100000, 'x')).size(), 300U);
}

}  // namespace
}  // namespace tandem::format
