// Turns a JSON Schema into a grammar of the texts that are valid for it.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/ecma_regex.h"
#include "text/grammar/json_pieces.h"
#include "text/grammar/number_range.h"
#include "text/grammar/schema_algebra.h"

namespace tandem::text::grammar {

class SchemaTranslator {
  public:
    explicit SchemaTranslator(const Json& root) : root_(root), algebra_(root), json_(grammar_) {}

    Result<Grammar> run();

  private:
    // Where we are, for messages and against endless depth.
    struct Place {
        std::string pointer;
        int depth = 0;
        bool merged = false;  // the schema was put together from several

        Place at(std::string_view key) const;
        Place at(std::string_view key, size_t index) const { return at(key).at(std::to_string(index)); }
    };

    static Error error(const Place& place, std::string_view message);
    static Error at(const Place& place, const Error& cause) { return error(place, cause.message); }
    // No value is valid: a mistake where it is written so. What was put together from several schemas may well have no
    // value, as an option of anyOf that the keywords beside it exclude; nothing is written for it then.
    Result<NodeId> impossible(const Place& place, std::string_view message);

    // What the schema says, wherever it says it (schema_translator.cpp).
    Result<NodeId> translate(const Json& schema, const Place& place);
    Result<NodeId> translate_reference(const std::string& reference, const Place& place);
    Result<NodeId> translate_flat(const Json& schema, const Place& place);
    Result<NodeId> translate_alternatives(const Json& schema, const char* keyword, const Place& place);
    Result<NodeId> translate_values(const Json& schema, const Place& place);
    Status check_keywords(const Json& schema, const Place& place) const;
    Status keep_apart(std::optional<Json>& option, const std::vector<Json>& all, size_t index, const Place& place);

    // What it says about values of one type (schema_types.cpp).
    Result<NodeId> translate_type(const std::string& type, const Json& schema, const Place& place);
    Result<NodeId> translate_object(const Json& schema, const Place& place);
    Result<NodeId> translate_map(const Json& schema, const Place& place);
    Result<NodeId> translate_array(const Json& schema, const Place& place);
    Result<NodeId> translate_string(const Json& schema, const Place& place);
    Result<NodeId> translate_number(const Json& schema, bool integer, const Place& place);
    Result<NodeId> string_of_pattern(const std::string& pattern, const Json& schema, const Place& place);

    struct Member {
        std::string name;
        const Json* schema = nullptr;
        bool required = false;
    };
    Result<std::vector<Member>> members_of(const Json& schema, const Place& place) const;
    NodeId other_keys(const std::vector<Member>& members);
    NodeId key_except(std::vector<std::u32string> names, size_t depth);
    NodeId items_between(NodeId item, uint32_t min, uint32_t max);
    Result<uint32_t> count_of(const Json& schema, const char* keyword, uint32_t otherwise, const Place& place) const;
    Result<NumberBounds> bounds_of(const Json& schema, bool integer, const Place& place) const;

    const Json& root_;
    SchemaAlgebra algebra_;
    Grammar grammar_;
    JsonPieces json_;
    int visits_ = 0;

    struct Reference {
        RuleId rule = 0;
        const Json* schema = nullptr;
        std::string pointer;
    };
    std::unordered_map<std::string, RuleId> rules_;    // by reference
    std::vector<Reference> waiting_;                   // references whose rule is not defined yet
    std::unordered_map<std::string, NodeId> numbers_;  // by bounds
};

}  // namespace tandem::text::grammar
