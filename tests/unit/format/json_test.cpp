#include "format/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

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
    EXPECT_EQ(refusal(R"([[],"a",{},1,2,3])", {.kept = 4}), "");
    EXPECT_EQ(refusal(R"([[],"a",{},1,"b"])", {.kept = 4}), "x: more than 4 strings, arrays and objects");
}

TEST(ParseJson, BoundsTheDepth) {
    const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    EXPECT_EQ(refusal(nested(64)), "");
    EXPECT_EQ(refusal(nested(65)), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(nested(1000000)), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(std::string(1000000, '[')), "x: nested deeper than 64 levels");
    EXPECT_EQ(refusal(nested(3), {.depth = 2}), "x: nested deeper than 2 levels");
}

// What the library that keeps the values would read, and what it would not.
void expect_as_the_library(const std::string& text) {
    const nlohmann::json expected = nlohmann::json::parse(text, nullptr, false);
    const auto parsed = parse_json(text, "x");
    ASSERT_EQ(static_cast<bool>(parsed), !expected.is_discarded()) << testing::PrintToString(text);
    if (!parsed) return;
    EXPECT_EQ(*parsed, expected) << text;
    EXPECT_EQ(parsed->dump(), expected.dump()) << text;  // 1 and 1.0 are equal
}

TEST(ParseJson, ReadsWhatTheLibraryReads) {
    for (const char* const number :
         {"0",      "-0",     "00",       "-",         "+1",   "1.",    ".5",
          "1.5e",   "1e+",    "1e5",      "-0.0",      "1E-7", "0x10",  "1e308",
          "-1e309", "5e-324", "1e-400",   "0e1",       "01",   "1.5.5", "1e1e1",
          "1_0",    "NaN",    "Infinity", "-Infinity", "- 1",  "1-",    "2.2250738585072014e-308"}) {
        expect_as_the_library(number);
    }
    for (const char* const whole : {"9223372036854775807", "9223372036854775808", "-9223372036854775808",
                                    "-9223372036854775809", "18446744073709551615", "18446744073709551616"}) {
        expect_as_the_library(whole);
    }
    for (const char* const string :
         {"\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\ude00\"",   "\"\\ud83dx\"", "\"\\ud83d\\u0041\"",
          "\"\\u12\"",   "\"\\u12g4\"",        "\"\\u+123\"", "\"\\u-123\"",   "\"\\x\"",      "\"\\\"",
          "\"\n\"",      "\"\x7f\"",           "\"\\u0000\"", "\"\\/\\b\\f\"", "'a'",          "\"a",
          "\"a\" \"b\"", "\xEF\xBB\xBF 1",     "\xEF\xBB 1",  "tru",           "truex",        "True",
          "nulls"}) {
        expect_as_the_library(string);
    }
}

// Every two bytes of the first kind with the borders of what may follow them.
TEST(ParseJson, TakesTheUtf8ThatTheLibraryTakes) {
    const std::string borders = "\x20\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xff";
    for (int first = 0x7F; first <= 0xFF; ++first) {
        for (const char second : borders) {
            for (const std::string& rest :
                 {std::string(), std::string("\x80"), std::string("\xbf\x80"), std::string("a")}) {
                expect_as_the_library('"' + std::string(1, static_cast<char>(first)) + second + rest + '"');
            }
        }
    }
}

TEST(ParseJson, ReadsDamagedTextsAsTheLibraryDoes) {
    const std::string text =
        "{\"b\": [1, -2, 3.5e1, true, false, null, \"x\\n\\u00e9\\ud83d\\ude00\", [], {}],\n \"a\": {\"z\": [[1], "
        "[2]]}, \"\": 0}";
    const std::string letters = "{}[]\",:\\ \t10-+.eEu\xC3\xA9\x01tfn";
    std::mt19937 random(1);
    const auto below = [&](size_t most) { return random() % most; };
    for (int round = 0; round < 20'000; ++round) {
        std::string damaged = text;
        for (size_t changes = 1 + below(3); changes > 0 && !damaged.empty(); --changes) {
            const size_t at = below(damaged.size());
            const char letter = letters[below(letters.size())];
            switch (below(4)) {
                case 0:
                    damaged[at] = letter;
                    break;
                case 1:
                    damaged.insert(at, 1, letter);
                    break;
                case 2:
                    damaged.erase(at, 1);
                    break;
                default:
                    damaged.resize(at + 1);
            }
        }
        expect_as_the_library(damaged);
        if (testing::Test::HasFailure()) return;
    }
}

TEST(ParseJson, SaysWhereAndWhy) {
    EXPECT_EQ(refusal("{\"a\": 1,\n \"b\" 2}"),
              "x: not valid JSON: parse error at line 2, column 6: a colon is missing behind a key");
    EXPECT_EQ(refusal("[1 2]"), "x: not valid JSON: parse error at line 1, column 4: a comma or ] is missing");
    EXPECT_EQ(refusal("[1,]"), "x: not valid JSON: parse error at line 1, column 4: this is no value");
    EXPECT_EQ(refusal(""), "x: not valid JSON: parse error at line 1, column 1: the text ends where a value must come");
    EXPECT_EQ(refusal("1 1"), "x: not valid JSON: parse error at line 1, column 3: there is more behind the value");
    EXPECT_EQ(refusal(std::string("1\0", 2)),
              "x: not valid JSON: parse error at line 1, column 2: there is more behind the value");
    EXPECT_THAT(refusal("1e999"), HasSubstr("a number is too large for a double"));
}

TEST(ParseJson, KeepsErrorsShort) {
    EXPECT_LT(refusal("\"" + std::string(100000, 'x')).size(), 300U);
}

}  // namespace
}  // namespace tandem::format
