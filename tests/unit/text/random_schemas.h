// Random schemas, and walks that take whatever the masks of a grammar allow.
#pragma once

#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "unit/text/grammar_tools.h"

namespace tandem::text {

class SchemaMaker {
  public:
    using Json = nlohmann::ordered_json;

    explicit SchemaMaker(unsigned seed) : random_(seed) {}

    Json make() {
        Json schema = value(3);
        if (uses_reference_) schema["$defs"] = {{"tree", tree()}};
        return schema;
    }

    // Of the arguments of a tool, whose names any form of calls can write.
    Json make_parameters() {
        static constexpr const char* kNames[] = {"city", "max_days", "Options", "note", "a-b", "über"};
        Json schema = {{"type", "object"}, {"properties", Json::object()}};
        Json required = Json::array();
        for (const char* const name : kNames) {
            if (chance(2)) continue;
            schema["properties"][name] = chance(2) ? string() : value(2);
            if (chance(2)) required.push_back(name);
        }
        if (!required.empty()) schema["required"] = required;
        if (chance(8)) schema = {{"type", "object"}, {"additionalProperties", integer()}};
        if (chance(8)) schema = {{"$ref", "#/$defs/all"}, {"$defs", {{"all", schema}}}};
        if (uses_reference_) schema["$defs"]["tree"] = tree();
        return schema;
    }

  private:
    size_t below(size_t end) { return random_() % end; }
    bool chance(size_t one_in) { return below(one_in) == 0; }

    Json value(int depth) {
        switch (below(depth > 0 ? 13 : 8)) {
            case 0:
                return {{"type", "boolean"}};
            case 1:
                return string();
            case 2:
                return integer();
            case 3:
                return number();
            case 4:
                return {{"enum", Json::array({"red", "gr\"een", 3, nullptr, "ü", -1.5, true})}};
            case 5:
                return {{"const", chance(2) ? Json("fixed") : Json(42)}};
            case 6:
                return {{"type", Json::array({"string", "null"})}, {"maxLength", below(30)}};
            case 7:
                return pattern();
            case 8:
                return array(depth);
            case 9:
                return {{"anyOf", Json::array({value(depth - 1), value(depth - 1)})}};
            case 10:
                return alternatives(depth);
            default:
                return chance(6) ? reference() : object(depth);
        }
    }

    Json string() {
        Json schema = {{"type", "string"}};
        if (chance(2)) schema["minLength"] = below(4);
        if (chance(2)) schema["maxLength"] = 4 + below(60);
        return schema;
    }

    Json pattern() {
        const std::vector<std::string> patterns = {"^[a-z]+[0-9]{2}$", "^(foo|ba[rz])(,(foo|ba[rz]))*$", "x",
                                                   "^\\w{1,8}@\\w+$",  "^\\d{4}-\\d{2}-\\d{2}$",         "[A-Z]{2}$",
                                                   "^a?b*c+$"};
        return {{"type", "string"}, {"pattern", patterns[below(patterns.size())]}};
    }

    Json integer() {
        Json schema = {{"type", "integer"}};
        const int low = static_cast<int>(below(2000)) - 1000;
        if (chance(2)) schema[chance(2) ? "minimum" : "exclusiveMinimum"] = low;
        if (chance(2)) schema["maximum"] = low + 2 + static_cast<int>(below(500));
        if (!schema.contains("maximum") && chance(4)) schema["multipleOf"] = 1 + below(20);
        return schema;
    }

    Json number() {
        Json schema = {{"type", "number"}};
        const double low = static_cast<double>(below(2000)) / 16 - 60;
        if (chance(2)) schema["minimum"] = low;
        if (chance(2)) schema[chance(2) ? "maximum" : "exclusiveMaximum"] = low + 0.5 + static_cast<double>(below(100));
        if (chance(5)) schema["multipleOf"] = 0.01;
        return schema;
    }

    Json array(int depth) {
        Json schema = {{"type", "array"}, {"items", value(depth - 1)}};
        if (chance(2)) schema["minItems"] = below(3);
        schema["maxItems"] = 2 + below(4);
        if (chance(4)) schema["prefixItems"] = Json::array({value(depth - 1), value(0)});
        return schema;
    }

    Json object(int depth) {
        Json schema = {{"type", "object"}, {"properties", Json::object()}};
        Json required = Json::array();
        const size_t count = below(5);
        for (size_t i = 0; i < count; ++i) {
            const std::string name = chance(5) ? "naïve \"key\"" : std::string(1, static_cast<char>('a' + i)) + "_name";
            schema["properties"][name] = value(depth - 1);
            if (chance(2)) required.push_back(name);
        }
        if (!required.empty()) schema["required"] = required;
        if (chance(2)) schema["additionalProperties"] = chance(2) ? Json(false) : integer();
        return schema;
    }

    // An option is told by the constant of its "kind".
    Json alternatives(int depth) {
        const auto option = [&](const char* kind) {
            return Json{{"type", "object"},
                        {"properties", {{"kind", {{"const", kind}}}, {"value", value(depth - 1)}}},
                        {"required", Json::array({"kind"})}};
        };
        return {{chance(2) ? "oneOf" : "anyOf", Json::array({option("one"), option("other")})}};
    }

    Json reference() {
        uses_reference_ = true;
        return {{"$ref", "#/$defs/tree"}};
    }

    static Json tree() {
        return Json::parse(
            R"({"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["left", "n"], "additionalProperties": false})");
    }

    std::mt19937 random_;
    bool uses_reference_ = false;
};

// The token of a mask that `random` falls on.
inline TokenId pick(const std::vector<uint32_t>& mask, size_t random) {
    const auto tokens = [](uint32_t word) { return static_cast<size_t>(std::popcount(word)); };
    size_t allowed = 0;
    for (const uint32_t word : mask) allowed += tokens(word);
    size_t skip = random % allowed;
    size_t at = 0;
    for (; skip >= tokens(mask[at]); ++at) skip -= tokens(mask[at]);
    uint32_t word = mask[at];
    for (; skip > 0; --skip) word &= word - 1;
    return static_cast<TokenId>(at * 32 + static_cast<size_t>(std::countr_zero(word)));
}

// The tokens that may close a string, a list or an object, and marks.
inline std::vector<TokenId> closing_tokens(const TokenTrie& trie) {
    std::vector<TokenId> closing;
    for (TokenId id = 0; id < trie.vocab_size(); ++id) {
        const std::string_view bytes = trie.bytes(id);
        if (bytes.ends_with('"') || bytes.ends_with('}') || bytes.ends_with(']') || bytes.ends_with('>') ||
            bytes.ends_with(">\n"))
            closing.push_back(id);
    }
    return closing;
}

// Takes any allowed token; after a while rather those that close something. Nothing when that does not come to an end.
inline std::optional<std::string> walk(const std::shared_ptr<const TokenMasks>& masks,
                                       const std::vector<TokenId>& closing, unsigned seed) {
    GrammarMatcher matcher(masks);
    const TokenTrie& trie = masks->trie();
    std::mt19937 random(seed);
    std::string text;
    for (int step = 0; step < 4'000; ++step) {
        const auto mask = mask_of(matcher, trie);
        if (step > 25 && matcher.may_end()) break;
        TokenId chosen = pick(mask, random());
        if (step > 25) {  // random strings would go on for long
            for (const TokenId id : closing) {
                if (is_set(mask, id) && random() % 3 == 0) chosen = id;
            }
        }
        if (!matcher.accept(chosen)) {
            ADD_FAILURE() << "an allowed token is not accepted";
            return std::nullopt;
        }
        if (matcher.finished()) break;
        text += trie.bytes(chosen);
    }
    if (!matcher.finished() && !matcher.may_end()) return std::nullopt;
    return text;
}

}  // namespace tandem::text
