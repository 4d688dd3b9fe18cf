// Turns a JSON Schema into a grammar of the texts that are valid for it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar/ecma_regex.h"
#include "text/grammar/json_pieces.h"
#include "text/grammar/number_range.h"
#include "text/grammar/schema_algebra.h"

namespace tandem::text::grammar {

// How the arguments of a call are written where each is for itself.
struct ElementMarks {
    std::string_view before_key;
    std::string_view after_key;
    std::string_view before_value;
    std::string_view after_value;
    bool loose_breaks = false;         // line breaks may be left out
    std::set<std::string> texts = {};  // those that are written as they are, without quotes
};

class SchemaTranslator {
  public:
    // Values are written with `json`, whose grammar takes the rules.
    SchemaTranslator(const Json& root, JsonPieces& json)
        : root_(root), algebra_(root), grammar_(json.grammar()), json_(json) {}

    // The rule of the values that are valid.
    Result<RuleId> run() { return run(Form::value); }
    // Of objects.
    Result<RuleId> arguments() { return run(Form::arguments); }
    // Of objects as elements; texts among them are written with `bare`.
    Result<RuleId> elements(const ElementMarks& marks, JsonPieces& bare);

  private:
    enum class Form : uint8_t {
        value,
        arguments,  // an object, perhaps as elements
        bare,       // a text as it is
    };
    Result<RuleId> run(Form form);

    // Where we are, for messages and against endless depth.
    struct Place {
        std::string pointer;
        int depth = 0;
        bool merged = false;  // the schema was put together from several
        Form form = Form::value;

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

    Result<NodeId> translate_member(const Member& member, const Place& place);
    NodeId element(NodeId key, NodeId value);
    NodeId element_mark(std::string_view written);
    JsonPieces& pieces(const Place& place) { return place.form == Form::bare ? *bare_ : json_; }

    const Json& root_;
    SchemaAlgebra algebra_;
    Grammar& grammar_;
    JsonPieces& json_;
    const ElementMarks* marks_ = nullptr;  // of elements()
    JsonPieces* bare_ = nullptr;
    int visits_ = 0;

    struct Reference {
        RuleId rule = 0;
        const Json* schema = nullptr;
        std::string pointer;
        Form form = Form::value;
    };
    RuleId rule_for(const std::string& reference, const Json* schema, Form form);
    std::unordered_map<std::string, RuleId> rules_;    // by form and reference
    std::vector<Reference> waiting_;                   // references whose rule is not defined yet
    std::unordered_map<std::string, NodeId> numbers_;  // by bounds
};

}  // namespace tandem::text::grammar
