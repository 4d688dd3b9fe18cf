// Schemas that meet in one value: allOf, $ref and its siblings, the options of oneOf and what stands beside them. No
// text that one of them forbids may be written.
#include <gtest/gtest.h>

#include "grammar_tools.h"

namespace tandem::text {
namespace {

TEST(SchemasMeet, OneOfSeesWhatStandsBesideIt) {
    // Exactly one of two properties, which are declared outside.
    expect_json(R"({"type": "object", "properties": {"email": {"type": "string", "maxLength": 8},
                    "phone": {"type": "string", "maxLength": 8}},
                    "oneOf": [{"properties": {"email": {"type": "string"}}, "required": ["email"]},
                              {"properties": {"phone": {"type": "string"}}, "required": ["phone"]}]})",
                {R"({"email":"a"})", R"({"phone":"b"})"}, {R"({"email":"a","phone":"b"})", "{}"});
    expect_json(R"({"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}},
                    "additionalProperties": {"const": 4},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}]})",
                {R"({"a":1})", R"({"b":2,"x":4})", R"({"c":3})"},
                {"{}", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":4})", R"({"x":4})"});
    expect_json(R"({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]})", {R"({"a":null})", R"({"b":1})"},
                {R"({"a":1,"b":2})"});
    // What is written is a list, of which neither option says anything.
    EXPECT_NE(schema_failure(R"({"type": "array", "items": true, "allOf": [{"oneOf": [{"exclusiveMaximum": 4},
                                 {"exclusiveMinimum": 4}]}]})")
                  .find("could both be valid"),
              std::string::npos);
    EXPECT_NE(schema_failure(R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"],
                                 "oneOf": [{"required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]})")
                  .find("could both be valid"),
              std::string::npos);
    // Beside this they exclude each other, although alone they do not.
    expect_json(R"({"type": "number", "oneOf": [{"maximum": 1}, {"minimum": 2}]})", {"1", "2"}, {"1.5", "\"a\""});
}

TEST(SchemasMeet, OneOfSeesOptionsWithinOptions) {
    for (const char* bad : {
             R"({"oneOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"anyOf": [{"const": 2}, {"const": 3}]}]})",
             R"({"oneOf": [{"minimum": 3, "anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "string"}]})",
             R"({"oneOf": [{"$ref": "#/$defs/d"}, {"const": "b"}], "$defs": {"d": {"allOf": [{"enum": ["a", "b"]}]}}})",
             R"({"oneOf": [{"required": ["a"], "properties": {"a": {"oneOf": [{"type": "null"}, {"const": 1}]}}},
                           {"required": ["a"], "properties": {"a": {"const": 1}}}]})",
         }) {
        EXPECT_NE(schema_failure(bad).find("schema at /oneOf: options 0 and 1 could both be valid"), std::string::npos)
            << bad << ": " << schema_failure(bad);
    }
    expect_json(
        R"({"oneOf": [{"anyOf": [{"const": 1}, {"const": 2}]}, {"oneOf": [{"const": 3}, {"type": "string"}]}]})",
        {"1", "2", "3", R"("a")"}, {"4"});
    expect_json(
        R"({"oneOf": [{"$ref": "#/$defs/d"}, {"const": "c"}], "$defs": {"d": {"allOf": [{"enum": ["a", "b"]}]}}})",
        {R"("a")", R"("c")"}, {R"("d")"});
    expect_json(R"({"oneOf": [{"type": "array", "prefixItems": [{"const": "a"}, {"type": "integer"}], "minItems": 2},
                              {"type": "array", "prefixItems": [{"const": "b"}], "minItems": 1}, {"type": "string", "maxLength": 1},
                              {"type": "string", "minLength": 2}]})",
                {R"(["a",1])", R"(["b"])", R"("x")", R"("xy")"}, {R"(["a"])", "[]"});
}

TEST(SchemasMeet, ValuesAreTheSameWhateverTheOrderOfTheirKeys) {
    EXPECT_NE(schema_failure(R"({"oneOf": [{"const": {"a": 1, "b": [{"c": 1, "d": 2}]}},
                                           {"const": {"b": [{"d": 2.0, "c": 1}], "a": 1}}]})")
                  .find("could both be valid"),
              std::string::npos);
    expect_json(R"({"enum": [{"a": 1, "b": 2}, {"a": 1}], "allOf": [{"const": {"b": 2, "a": 1}}]})",
                {R"({"b":2,"a":1})"}, {R"({"a":1})"});
    expect_json(R"({"allOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}]})", {R"({"a":1,"b":2})"}, {});
}

TEST(SchemasMeet, ConstantsAreCheckedAgainstAllThatStandsBesideThem) {
    expect_json(R"({"enum": [{"a": 1}, {"a": "x"}, {"b": 1}, [1], [1, "x"], "abc", 4, 7, null],
                    "properties": {"a": {"type": "integer"}}, "additionalProperties": false,
                    "prefixItems": [{"type": "integer"}], "items": {"type": "integer"}, "maxLength": 2,
                    "exclusiveMaximum": 7})",
                {R"({"a":1})", "[1]", "4", "null"}, {R"({"a":"x"})", R"({"b":1})", R"([1,"x"])", R"("abc")", "7"});
    expect_json(R"({"enum": [1, 1.5, 300], "format": "uint8"})", {"1"}, {"1.5", "300"});
    EXPECT_NE(schema_failure(R"({"enum": ["a", "b"], "pattern": "a"})").find("enum or const together"),
              std::string::npos);
}

TEST(SchemasMeet, ItemsAreAboutWhatTheirOwnPrefixLeavesOver) {
    expect_json(R"({"allOf": [{"prefixItems": [{"minimum": 3}]}], "items": {"minimum": 5}})", {"[5]", "[7,5]", "[]"},
                {"[3]", "[3,5]", "[5,4]"});
    expect_json(R"({"prefixItems": [{"type": "integer"}], "items": false, "$ref": "#/$defs/d",
                    "$defs": {"d": {"prefixItems": [{"minimum": 2}, {"type": "string"}], "items": {"const": 1}}}})",
                {"[]", "[2]"}, {"[1]", R"([2,"a"])"});
    expect_json(R"({"allOf": [{"items": [{"const": 1}], "additionalItems": {"type": "integer"}},
                              {"items": {"maximum": 2}}], "maxItems": 3})",
                {"[1]", "[1,2]"}, {"[1,3]", "[2]", "[1,\"a\"]"});
    EXPECT_EQ(schema_failure(R"({"items": [{}], "prefixItems": [{}]})"),
              "schema at its root: items cannot be a list beside prefixItems: use prefixItems alone");
}

TEST(SchemasMeet, AdditionalPropertiesAreAboutWhatTheirOwnPropertiesLeaveOver) {
    expect_json(R"({"allOf": [{"properties": {"a": {"minimum": 3}}}], "additionalProperties": {"minimum": 5}})",
                {R"({"a":5})", R"({"b":6})"}, {R"({"a":3})", R"({"b":4})"});
    expect_json(R"({"properties": {"a": {"const": 1}}, "additionalProperties": false, "$ref": "#/$defs/d",
                    "$defs": {"d": {"properties": {"b": {"const": 2}}, "additionalProperties": {"type": "integer"}}}})",
                {"{}", R"({"a":1})"}, {R"({"b":2})", R"({"a":1,"b":2})"});
}

TEST(SchemasMeet, TwoChoicesAreAllTheirPairs) {
    expect_json(R"({"allOf": [{"anyOf": [{"type": "integer", "minimum": 1, "maximum": 2}, {"const": 9}]},
                              {"anyOf": [{"const": 2}, {"const": 9}, {"const": "a"}]}]})",
                {"2", "9"}, {"1", R"("a")"});
    expect_json(R"({"oneOf": [{"maximum": 2}, {"minimum": 3}], "type": "integer", "minimum": 0, "maximum": 9,
                    "$ref": "#/$defs/d", "$defs": {"d": {"oneOf": [{"maximum": 5}, {"minimum": 8}]}}})",
                {"0", "2", "3", "5", "8"}, {"6", "7"});
    expect_json(R"({"type": "string", "anyOf": [{"const": 1}, {"enum": ["a", 2]}]})", {R"("a")"}, {"1", "2"});
    EXPECT_EQ(schema_failure(R"({"type": "string", "enum": [1]})"),
              "schema at its root: none of its values is valid for the rest of the schema");
}

TEST(SchemaReferences, AnIdIsTheBaseOfTheReferencesInIt) {
    const char* nested = R"({"$ref": "#/$defs/part", "$defs": {"x": {"const": "root"},
        "part": {"$id": "https://example.com/part.json", "items": {"$ref": "#/$defs/x"}, "maxItems": 1,
                 "$defs": {"x": {"const": "part"}}}}})";
    expect_json(nested, {R"(["part"])"}, {R"(["root"])"});
    expect_json(R"({"$id": "https://example.com/a/root.json", "prefixItems": [{"$ref": "../b/part.json"},
                    {"$ref": "/b/part.json#/$defs/x"}, {"$ref": "https://example.com/b/part.json#y"}],
                    "$defs": {"x": {"const": 1}, "p": {"$id": "../b/./part.json", "allOf": [{"$ref": "#y"},
                    {"$ref": "../a/root.json#/$defs/x"}], "$defs": {"x": {"const": 2}, "y": {"$anchor": "y", "type": "integer"}}}}})",
                {"[1,2,3]"}, {"[2]", "[1,1]"});
    expect_json(R"({"$ref": "b", "$defs": {"a": {"$id": "a/../b", "const": 1}}})", {"1"}, {"2"});
    expect_json(R"({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "const": 1}}})", {"1"}, {"2"});
    expect_json(R"({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#here",
                    "definitions": {"a": {"$id": "#here", "const": 1}}})",
                {"1"}, {"2"});
    expect_json(
        R"({"$ref": "#/x-parts/100%25", "x-parts": {"100%": {"items": {"$ref": "#/x-parts/b"}}, "b": {"const": 1}}})",
        {"[1,1]"}, {"[2]"});
}

TEST(SchemaReferences, WhatTheyCannotFindIsNamed) {
    EXPECT_EQ(
        schema_failure(R"({"items": {"$id": "part.json", "items": {"$ref": "#/$defs/x"}}, "$defs": {"x": true}})"),
        "schema at /items/items/$ref: 'part.json#/$defs/x' is not supported: refer to a part of the schema "
        "itself, as in #/$defs/name");
    EXPECT_EQ(schema_failure(R"({"$ref": "#nowhere"})"), "schema at /$ref: '#nowhere' is not in the schema");
    EXPECT_EQ(schema_failure(R"({"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}})"),
              "schema at /$defs/b/$id: 'x' names two schemas");
    EXPECT_EQ(schema_failure(R"({"properties": {"a": {"$id": "x#y"}}})"),
              "schema at /properties/a/$id: it has a fragment: use $anchor to name a part");
    EXPECT_EQ(schema_failure(R"({"$defs": {"a": {"$id": ")" + std::string(2'000, 'x') + R"("}}})"),
              "schema at /$defs/a/$id: it has more than 1000 bytes");
    EXPECT_NE(schema_failure(R"({"$defs": {")" + std::string(2'000, 'x') + R"(": {"$anchor": "a"}}})")
                  .find("the way to it has more than 1000 bytes"),
              std::string::npos);
    // A property, and a value, that are only called so.
    expect_json(R"({"properties": {"$id": {"const": {"$id": "x", "$ref": "y"}}}})",
                {R"({"$id":{"$id":"x","$ref":"y"}})"}, {});
}

}  // namespace
}  // namespace tandem::text
