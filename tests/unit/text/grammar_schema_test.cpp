// JSON Schemas keyword by keyword: texts that are allowed, texts that are not, schemas that are refused.
#include <gtest/gtest.h>

#include "grammar_tools.h"

namespace tandem::text {
namespace {

TEST(JsonSchema, ObjectsKeepTheOrderOfTheirProperties) {
    const char* schema = R"({"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"},
        "c": {"type": "boolean"}}, "required": ["b"], "additionalProperties": false})";
    expect_json(
        schema,
        {R"({"b":1})", R"({"b": 1, "a": "x", "c": true})", "{\n  \"b\": -12,\n  \"c\": false\n}", R"({"b":0,"a":""})"},
        {"{}", R"({"a":"x"})", R"({"a":"x","b":1})", R"({"b":1,})", R"({"b":1,"d":2})", R"({"b":01})",
         R"({"b":1,"b":2})", R"({"b" :1})", "{\"b\":  1}", "{\"b\":1}\n", "[1]"});
    expect_json(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}})",
                {"{}", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {R"({,"b":2})", R"({"c":3})"});
}

TEST(JsonSchema, AdditionalPropertiesNeverRepeatDeclaredOnes) {
    expect_json(
        R"({"type": "object", "properties": {"ab": {"type": "integer"}}, "additionalProperties": {"type": "string"}})",
        {R"({"ab":1,"x":"y"})", R"({"a":"x","abc":"y","":"z"})", R"({"é":"x"})"},
        {R"({"ab":"x"})", R"({"x":"y","ab":"z"})", R"({"x":1})", R"({"x":"y","ab":1})"});
    expect_json(
        R"({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2})",
        {R"({"a":1})", R"({"a":1,"b":2})"}, {"{}", R"({"a":1,"b":2,"c":3})", R"({"a":"x"})"});
    expect_json(
        R"({"type": "object", "propertyNames": {"enum": ["x", "y"]}, "additionalProperties": {"type": "null"}})",
        {"{}", R"({"y":null,"x":null})"}, {R"({"z":null})"});
    expect_json(R"({"type": "object"})", {"{}", R"({"a":[1,{"b":null}]})"}, {"[]", "1"});
    expect_json(R"({"type": "object", "properties": {}})", {"{}"}, {R"({"a":1})"});
    expect_json(R"({"type": "object", "required": ["q"]})", {R"({"q":[1]})"}, {"{}"});
}

TEST(JsonSchema, ArraysHaveTheirBounds) {
    expect_json(R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
                {"[1]", "[1,2]", "[1, 2, 3]"}, {"[]", "[1,2,3,4]", "[1,]", "[,1]", "[\"a\"]"});
    expect_json(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
    expect_json(R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "minItems": 2})",
                {R"(["a",1])"}, {R"(["a"])", R"(["a",1,2])", R"([1,"a"])", "[]"});
    expect_json(R"({"prefixItems": [{"const": 1}], "items": {"const": 2}, "maxItems": 3})",
                {"[]", "[1]", "[1,2]", "[1,2,2]"}, {"[2]", "[1,2,2,2]"});
    expect_json(
        R"({"type": "array", "items": {"type": "string", "maxLength": 1}, "minItems": 300, "maxItems": 100000})", {},
        {"[]"});
    expect_json(R"({"type": "array", "items": [{"const": 1}], "additionalItems": false})", {"[]", "[1]"}, {"[1,1]"});
    expect_json(R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[{}]"}, {"[1,1]"});
}

TEST(JsonSchema, StringsAreCountedInCharacters) {
    expect_json(R"({"type": "string"})", {R"("")", R"("a\n\u00e9\ud83d\ude00é")", R"("\/")"},
                {"\"\n\"", R"("\x")", R"("\ud83d")", R"("\ude00")", "\"\xFF\"", R"("a)", R"(a)"});
    expect_json(R"({"type": "string", "minLength": 2, "maxLength": 3})",
                {R"("ab")", R"("éé")", R"("\u00e9\ud83d\ude00😀")", R"("\"\\\n")"}, {R"("a")", R"("abcd")", R"("é")"});
    expect_json(R"({"type": "string", "minLength": 200})", {'"' + std::string(201, 'a') + '"'},
                {'"' + std::string(199, 'a') + '"'});
}

TEST(JsonSchema, PatternsAreEcmaExpressions) {
    expect_json(R"({"type": "string", "pattern": "^[a-z]{2,3}-\\d+$"})", {R"("ab-1")", R"("abc-123")"},
                {R"("a-1")", R"("ab-")", R"("xabc-1")"});
    expect_json(R"({"pattern": "b"})", {R"("b")", R"("abc")", R"("\nb\"")"}, {R"("ac")", R"("")"});
    expect_json(R"({"pattern": "^a|b$"})", {R"("ax")", R"("xb")", R"("a")"}, {R"("xa")", R"("bx")"});
    expect_json(R"({"pattern": "^(?:a|(?<x>bc))*?$"})", {R"("")", R"("abca")"}, {R"("b")"});
    expect_json(R"x({"pattern": "(^a$|^b$)"})x", {R"("a")", R"("b")"}, {R"("ab")", R"("")"});
    expect_json(R"({"pattern": "^[\"\\\\\\n]\\.[^a]$"})", {R"("\".b")", R"("\\.\"")", R"("\n.\u0000")"},
                {R"("n.b")", R"("\".a")"});
    expect_json(R"({"pattern": "^.\\s\\S\\w\\W[\\d-]\\u0041\\x42\\cA?$"})", {R"("é x_-7AB")", R"("a\tb0é-AB\u0001")"},
                {R"("\n xa-7AB")"});
    expect_json(R"({"pattern": "^a{3}$", "maxLength": 5})", {R"("aaa")"}, {R"("aa")"});
    for (const char* bad : {"(?=a)", "(?<!a)b", "(a)\\\\1", "\\\\bword", "\\\\p{L}", "a**", "(a", "a)", "[a", "a{2,1}",
                            "a^b", "a$b", "\\\\k<x>", "[z-a]"}) {
        const std::string message = schema_failure(R"({"type": "string", "pattern": ")" + std::string(bad) + "\"}");
        EXPECT_TRUE(message.starts_with("schema at /pattern: ")) << bad << ": " << message;
    }
    EXPECT_NE(schema_failure(R"({"pattern": "^a+$", "maxLength": 5})").find("put the bounds into the pattern"),
              std::string::npos);
}

TEST(JsonSchema, FormatsAreWhatTheyName) {
    expect_json(R"({"format": "date"})", {R"("2024-02-29")", R"("2023-12-31")", R"("2000-02-29")"},
                {R"("2023-02-29")", R"("1900-02-29")", R"("2023-04-31")", R"("2023-13-01")", R"("2023-1-1")"});
    expect_json(R"({"format": "time"})", {R"("23:59:59Z")", R"("00:00:00.123+05:30")"},
                {R"("24:00:00Z")", R"("12:00:00")"});
    expect_json(R"({"format": "date-time"})", {R"("2024-01-01T00:00:00Z")"}, {R"("2024-01-01 00:00:00Z")"});
    expect_json(R"({"format": "duration"})", {R"("P1DT2H")", R"("P3W")", R"("PT5S")", R"("P1Y2M3D")"},
                {R"("P")", R"("PT")", R"("P1H")", R"("P1DT")"});
    expect_json(R"({"format": "uuid"})", {R"("123e4567-e89b-12d3-a456-426614174000")"},
                {R"("123e4567e89b12d3a456426614174000")"});
    expect_json(R"({"format": "ipv4"})", {R"("255.0.10.99")", R"("0.0.0.0")"},
                {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"});
    expect_json(R"({"format": "ipv6"})",
                {R"("::")", R"("::1")", R"("fe80::1:2")", R"("1:2:3:4:5:6:7:8")", R"("1:2:3:4:5:6:7::")"},
                {R"(":")", R"("1:2:3:4:5:6:7")", R"("1::2::3")", R"("12345::")", R"("1:2:3:4:5:6:7:8::")"});
    expect_json(R"({"format": "email"})", {R"("a.b+c@example.com")"}, {R"("a@b")", R"("@b.com")", R"("a b@c.de")"});
    expect_json(R"({"format": "hostname"})", {R"("a-b.example.com")"}, {R"("-a.com")", R"("a..b")"});
    expect_json(R"({"format": "uri"})", {R"("https://a.b/c%20d?e=f#g")", R"("ftp://x:21/")"},
                {R"("a.b/c")", R"("http:// x")"});
    // Texts of which some readers say that they do not have the format.
    expect_json(R"({"format": "hostname"})", {R"("a--b.de")", R"("a-b")", R"("abc--d")", R"("x")"},
                {R"("xn--a")", R"("XN--ihqwcrb4cv8a8dqg056pqjye.de")", R"("a.xn--x")", R"("ab--c")"});
    expect_json(R"({"format": "email"})", {R"("a@b--c.de")"}, {R"("a@xn--x.de")", R"("a@b.xn--x.de")"});
    expect_json(R"({"format": "uri"})", {R"("http://127.0.0.1:80/")", R"("http://my-host/")", R"("http://1a.b2/")"},
                {R"("http://xn--x/")", R"("http://a..b/")", R"("http://1.2.3.999/")", R"("http://a.1/")"});
    expect_json(R"({"format": "date"})", {R"("0001-01-01")", R"("0004-02-29")"},
                {R"("0000-01-01")", R"("0000-02-29")"});
    EXPECT_NE(schema_failure(R"({"type": "string", "format": "zip"})")
                  .find("schema at /format: unknown: supported are date-time, "),
              std::string::npos);
}

TEST(JsonSchema, IntegerRangesAreExact) {
    const std::vector<std::pair<int, int>> ranges = {{0, 0},    {1, 9},    {-5, 5}, {7, 123},   {-120, -99},
                                                     {0, 1000}, {98, 101}, {-1, 0}, {199, 2001}};
    for (const auto& range : ranges) {
        const auto grammar = compile_json_schema(
            fmt::format(R"({{"type": "integer", "minimum": {}, "maximum": {}}})", range.first, range.second));
        ASSERT_TRUE(grammar) << grammar.error().message;
        for (int value = -150; value <= 2100; ++value) {
            ASSERT_EQ(matches(*grammar, std::to_string(value)), value >= range.first && value <= range.second)
                << value << " in " << range.first << " ... " << range.second;
        }
        EXPECT_FALSE(matches(*grammar, "-0"));
        EXPECT_FALSE(matches(*grammar, "00"));
    }
    expect_json(R"({"type": "integer", "exclusiveMinimum": 1.5, "exclusiveMaximum": 4})", {"2", "3"},
                {"1", "4", "2.0"});
    expect_json(R"({"type": "integer", "minimum": 9223372036854775})", {"9223372036854775", "9999999999999999"},
                {"9223372036854774"});
    expect_json(R"({"type": "integer", "maximum": 1e30})", {"999999999999999", "-5"}, {});
    expect_json(R"({"type": "integer", "minimum": -20, "maximum": 40, "multipleOf": 7})", {"-14", "0", "7", "35"},
                {"-21", "1", "42", "8"});
    expect_json(R"({"type": "integer", "multipleOf": 12})", {"0", "12", "-144", "120000000"}, {"1", "13", "-6"});
}

TEST(JsonSchema, NumberRangesAreExact) {
    const auto grammar = compile_json_schema(R"({"type": "number", "minimum": -1.25, "exclusiveMaximum": 2.5})");
    ASSERT_TRUE(grammar) << grammar.error().message;
    for (int hundredths = -300; hundredths <= 300; ++hundredths) {
        const std::string text = fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", std::abs(hundredths) / 100,
                                             std::abs(hundredths) % 100);
        ASSERT_EQ(matches(*grammar, text), hundredths >= -125 && hundredths < 250) << text;
    }
    expect_json(R"({"type": "number", "minimum": 0, "maximum": 1})", {"0", "1", "0.5", "1.0", "0.000001"},
                {"-0.1", "1.01", "2", ".5", "0.", "1e0"});
    expect_json(R"({"type": "number", "multipleOf": 0.01, "minimum": 0})", {"12.34", "0.5", "7"}, {"0.001", "-1"});
    expect_json(R"({"type": "number", "multipleOf": 0.25})", {"1.25", "-0.5", "3", "0.75", "2.50"}, {"0.3", "1.26"});
    expect_json(R"({"type": "number", "exclusiveMinimum": 0})", {"0.1", "5"}, {"0", "0.0", "-1"});
    expect_json(R"({"type": "integer", "format": "int32"})", {"2147483647", "-2147483648"},
                {"2147483648", "-2147483649"});
    expect_json(R"({"type": "number", "format": "uint8", "minimum": 9})", {"9", "255"}, {"8", "256", "9.5"});
    expect_json(R"({"type": "integer", "format": "int64"})", {"-999999999999999"}, {"1.5"});
    expect_json(R"({"type": "number", "format": "double"})", {"1.5"}, {});
    expect_json(R"({"type": "number"})", {"-0.5e-10", "12", "1E+5"}, {"01", "+1", "1.", "0x1", "NaN"});
    EXPECT_NE(schema_failure(R"({"type": "number", "multipleOf": 0.333})").find("multiples"), std::string::npos);
    EXPECT_NE(schema_failure(R"({"type": "number", "minimum": 1e20})").find("more than 15 digits"), std::string::npos);
    EXPECT_NE(schema_failure(R"({"type": "integer", "minimum": 5, "maximum": 4})").find("no finite text"),
              std::string::npos);
}

TEST(JsonSchema, ValuesTypesAndCombinations) {
    expect_json(R"({"enum": ["a", 1, null, {"x": [1]}, 1.5, "é\""]})",
                {R"("a")", "1", "null", R"({"x":[1]})", "1.5", R"("é\"")"}, {"2", R"("b")"});
    expect_json(R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"});
    expect_json(R"({"const": false})", {"false"}, {"true"});
    expect_json(R"({"type": ["string", "null"], "maxLength": 1})", {R"("a")", "null"}, {R"("ab")", "1"});
    expect_json("true", {"1", "[]", R"({"a":null})"}, {""});
    expect_json(R"({"anyOf": [{"type": "integer"}, {"type": "null"}, false]})", {"1", "null"}, {"\"a\""});
    expect_json(
        R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
        {R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"}, {"{}"});
    expect_json(R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "null"}, "a": {"maximum": 3, "minimum": 2}}, "required": ["b"]}]})",
                {R"({"a":2,"b":null})"}, {R"({"a":4,"b":null})", R"({"a":2})"});
    expect_json(R"({"$ref": "#/$defs/x", "maximum": 5, "$defs": {"x": {"type": "integer", "minimum": 4}}})", {"4", "5"},
                {"3", "6"});
}

TEST(JsonSchema, OneOfNeedsOptionsThatExcludeEachOther) {
    expect_json(R"({"oneOf": [{"type": "integer"}, {"type": "string"}]})", {"1", "\"a\""}, {"null"});
    expect_json(
        R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind", "x"]},
                    {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}}, "required": ["kind"]}]})",
        {R"({"kind":"a","x":1})", R"({"kind":"c"})"}, {R"({"kind":"a"})", R"({"kind":"b","x":1})"});
    expect_json(R"({"oneOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 4}, {"const": "x"}]})",
                {"3", "4", "\"x\""}, {});
    for (
        const char* bad :
        {R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})",
         R"({"oneOf": [{"type": "string"}, {"const": "a"}]})",
         R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "null"}}}, {"type": "object", "properties": {"b": {"type": "null"}}}]})",
         R"({"oneOf": [{"type": "string"}, {"maximum": 3}]})"}) {
        EXPECT_NE(schema_failure(bad).find("schema at /oneOf: options"), std::string::npos) << schema_failure(bad);
    }
}

TEST(JsonSchema, ReferencesMayBeRecursive) {
    const char* tree = R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})";
    expect_json(tree, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"},
                {R"({"v":1})", R"({"v":1,"next":{}})"});
    expect_json(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]"});
    expect_json(R"({"properties": {"a/b~": {"type": "integer"}, "x": {"$ref": "#/properties/a~1b~0"}}})",
                {R"({"a/b~":1,"x":2})"}, {R"({"x":"y"})"});
    expect_json(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})", {"null"}, {"1"});
    EXPECT_NE(schema_failure(R"({"$ref": "#"})").find("no finite text"), std::string::npos);
    EXPECT_NE(
        schema_failure(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})")
            .find("no finite text"),
        std::string::npos);
    EXPECT_NE(schema_failure(R"({"allOf": [{"$ref": "#"}]})").find("lead to each other"), std::string::npos);
    EXPECT_NE(schema_failure(R"({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})").find("no finite text"),
              std::string::npos);
    EXPECT_EQ(schema_failure(R"({"$ref": "#/nowhere"})"), "schema at /$ref: '#/nowhere' is not in the schema");
    EXPECT_NE(schema_failure(R"({"$ref": "https://example.com/x.json"})").find("refer to a part of the schema itself"),
              std::string::npos);
}

TEST(JsonSchema, WhatIsNotSupportedIsNamedWithItsPlace) {
    for (const char* keyword : {"not", "if", "then", "patternProperties", "dependentRequired", "dependentSchemas",
                                "contains", "unevaluatedProperties", "$dynamicRef", "requird"}) {
        EXPECT_EQ(
            schema_failure(fmt::format(
                R"({{"type": "object", "properties": {{"a": {{"type": "object", "{}": {{}}}}}}}})", keyword)),
            fmt::format("schema at /properties/a/{}: the keyword is not supported: leave it out, or say the same with "
                        "others",
                        keyword));
    }
    EXPECT_EQ(schema_failure(R"({"type": "array", "uniqueItems": true})"),
              "schema at /uniqueItems: it is supported for at most one item only");
    EXPECT_EQ(schema_failure(R"({"type": "decimal"})"), "schema at /type: unknown type \"decimal\"");
    EXPECT_EQ(schema_failure("[]"), "schema at its root: a schema is an object or a boolean");
    EXPECT_TRUE(schema_failure("{").starts_with("schema: not valid JSON"));
    EXPECT_EQ(schema_failure(R"({"type": "object", "properties": {"a": true}, "minProperties": 1})"),
              "schema at /minProperties: it is above the number of required properties: require them by name");
    EXPECT_EQ(schema_failure(R"({"type": "string", "minLength": -1})"),
              "schema at /minLength: it is not a whole number from 0 to 1000000000");
    EXPECT_EQ(schema_failure(R"({"type": "integer", "minimum": 0, "exclusiveMinimum": true})"),
              "schema at /exclusiveMinimum: it is not a number");
    expect_json(
        R"({"$schema": "x", "$id": "y", "title": "t", "description": "d", "default": 3, "examples": [1], "x-order": 1, "type": "null"})",
        {"null"}, {"1"});
}

TEST(JsonSchema, HostileSchemasAreRefusedOrBounded) {
    std::string deep;
    for (int i = 0; i < 10'000; ++i) deep += R"({"items":)";
    EXPECT_NE(schema_failure(deep + "1" + std::string(10'000, '}')).find("nested deeper"), std::string::npos);
    std::string members = "{";
    for (int i = 0; i < 30'000; ++i) members += fmt::format("\"k{}\":1,", i);
    EXPECT_NE(schema_failure(members + "\"z\":1}").find("members of an object"), std::string::npos);
    // Each level doubles the alternatives of the one before.
    std::string doubling = R"({"$ref": "#/$defs/d0", "$defs": {"end": {"type": "null"})";
    for (int i = 0; i < 40; ++i) {
        doubling += fmt::format(R"(, "d{0}": {{"anyOf": [{{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"title": "a"}}]}},)"
                                R"( {{"allOf": [{{"$ref": "#/$defs/d{1}"}}, {{"title": "b"}}]}}], "maximum": 3}})",
                                i, i + 1);
    }
    EXPECT_NE(schema_failure(doubling + R"(, "d40": {"type": "null"}}})"), "no error");
    std::string values = R"({"enum": [0)";
    for (int i = 1; i < 60'000; ++i) values += "," + std::to_string(i * 97);
    EXPECT_NE(schema_failure(values + "]}").find("too many values"), std::string::npos);
    EXPECT_NE(schema_failure(R"({"type": "string", "pattern": "^(a|b)*a(a|b){25}$"})").find("too complex"),
              std::string::npos);
    EXPECT_NE(schema_failure(R"({"type": "string", "pattern": ")" + std::string(70, '(') + "\"}").find("nested deeper"),
              std::string::npos);
    expect_json(R"({"type": "string", "pattern": "^((((a{1,100}){1,100}){1,100}){1,100}){1,100}$"})", {R"("aaa")"},
                {R"("")"});
    expect_json(R"({"type": "string", "maxLength": 1000000000})", {R"("abc")"}, {});
    EXPECT_NE(schema_failure(std::string(600'000, ' ')).find("too large"), std::string::npos);
}

TEST(JsonObject, IsAnyObject) {
    const auto grammar = compile_json_object();
    ASSERT_TRUE(grammar);
    EXPECT_TRUE(matches(*grammar, R"({"a": [1, 2.5e3, "x", {"b": null}], "": true})"));
    EXPECT_FALSE(matches(*grammar, "[]"));
    EXPECT_EQ(match(*grammar, "{ "), Match::prefix);
    EXPECT_EQ(match(*grammar, "{   "), Match::none);  // blanks have an end
}

}  // namespace
}  // namespace tandem::text
