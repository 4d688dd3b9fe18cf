#include "text/grammar/schema_translator.h"

#include <algorithm>
#include <array>

#include "format/json.h"
#include "text/grammar/limits.h"
#include "text/grammar/schema.h"
#include "text/grammar/schema_references.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

constexpr std::array<std::string_view, 27> kSupported = {"$ref",
                                                         "allOf",
                                                         "anyOf",
                                                         "oneOf",
                                                         "enum",
                                                         "const",
                                                         "type",
                                                         "properties",
                                                         "required",
                                                         "additionalProperties",
                                                         "minProperties",
                                                         "maxProperties",
                                                         "propertyNames",
                                                         "items",
                                                         "prefixItems",
                                                         "additionalItems",
                                                         "minItems",
                                                         "maxItems",
                                                         "uniqueItems",
                                                         "pattern",
                                                         "format",
                                                         "minLength",
                                                         "maxLength",
                                                         "minimum",
                                                         "maximum",
                                                         "exclusiveMinimum",
                                                         "exclusiveMaximum"};

bool is_supported(std::string_view keyword) {
    return keyword == "multipleOf" || std::find(kSupported.begin(), kSupported.end(), keyword) != kSupported.end();
}

// The parser looks a key up among those before it, so that many keys in one object would take long.
Status check_members(std::string_view text) {
    std::vector<size_t> open;
    size_t all = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            open.push_back(0);
        } else if ((c == '}' || c == ']') && !open.empty()) {
            open.pop_back();
        } else if (c == ':' && !open.empty()) {
            if (++open.back() > kMaxObjectMembers || ++all > kMaxMembers) {
                return fail("schema: more than {} members of an object, or {} in all", kMaxObjectMembers, kMaxMembers);
            }
        }
    }
    return Ok{};
}

}  // namespace

SchemaTranslator::Place SchemaTranslator::Place::at(std::string_view key) const {
    const std::string escaped = replace_all(replace_all(key.substr(0, 100), "~", "~0"), "/", "~1");
    return {.pointer = pointer + "/" + escaped, .depth = depth + 1, .merged = merged, .form = form};
}

Error SchemaTranslator::error(const Place& place, std::string_view message) {
    return fail("schema at {}: {}", place.pointer.empty() ? "its root" : to_valid_utf8(place.pointer), message);
}

Result<NodeId> SchemaTranslator::impossible(const Place& place, std::string_view message) {
    if (!place.merged) return error(place, message);
    return grammar_.nothing();
}

Result<RuleId> SchemaTranslator::run(Form form) {
    const RuleId root = rule_for("#", &root_, form);
    // NOLINTNEXTLINE(modernize-loop-convert): more come while they are translated
    for (size_t i = 0; i < waiting_.size(); ++i) {
        const Reference reference = waiting_[i];
        const NodeId body = TRY(translate(*reference.schema, {.pointer = reference.pointer, .form = reference.form}));
        grammar_.define(reference.rule, body);
        if (grammar_.full()) return fail("schema: it is too large: use fewer properties, values or bounds");
    }
    return root;
}

Result<RuleId> SchemaTranslator::elements(const ElementMarks& marks, JsonPieces& bare) {
    marks_ = &marks;
    bare_ = &bare;
    return run(Form::arguments);
}

RuleId SchemaTranslator::rule_for(const std::string& reference, const Json* schema, Form form) {
    const RuleId rule = grammar_.add_rule({});
    rules_.emplace(static_cast<char>('0' + static_cast<int>(form)) + reference, rule);
    waiting_.push_back({.rule = rule, .schema = schema, .pointer = reference.substr(1), .form = form});
    return rule;
}

Status SchemaTranslator::check_keywords(const Json& schema, const Place& place) const {
    for (const auto& [keyword, value] : schema.items()) {
        if (is_annotation(keyword) || is_supported(keyword)) continue;
        return error(place.at(keyword), "the keyword is not supported: leave it out, or say the same with others");
    }
    return Ok{};
}

Result<NodeId> SchemaTranslator::translate(const Json& schema, const Place& place) {
    if (++visits_ > kMaxSchemaVisits || place.depth > 3 * kMaxNesting || grammar_.full()) {
        return error(place, "the schema is too complex: use fewer alternatives or references");
    }
    if (schema.is_boolean()) {
        if (!schema.get<bool>()) return grammar_.nothing();
        return place.form == Form::value ? json_.any_value() : translate_flat(Json::object(), place);
    }
    if (!schema.is_object()) return error(place, "a schema is an object or a boolean");
    TRY(check_keywords(schema, place));
    const auto reference = schema.find("$ref");
    if (reference == schema.end() && !schema.contains("allOf")) return translate_flat(schema, place);
    const bool is_alone = std::all_of(schema.items().begin(), schema.items().end(), [](const auto& member) {
        return member.key() == "$ref" || is_annotation(member.key());
    });
    if (is_alone && reference->is_string()) return translate_reference(reference->get<std::string>(), place);
    const auto flat = algebra_.flatten(schema);
    if (!flat) return at(place, flat.error());
    if (flat->is_boolean()) return translate(*flat, place);
    TRY(check_keywords(*flat, place));
    Place merged = place;
    merged.merged = true;
    return translate_flat(*flat, merged);
}

Result<NodeId> SchemaTranslator::translate_reference(const std::string& reference, const Place& place) {
    const auto known = rules_.find(static_cast<char>('0' + static_cast<int>(place.form)) + reference);
    if (known != rules_.end()) return grammar_.use(known->second);
    const auto target = algebra_.find(reference);
    if (!target) return at(place.at("$ref"), target.error());
    return grammar_.use(rule_for(reference, *target, place.form));
}

Result<NodeId> SchemaTranslator::translate_flat(const Json& schema, const Place& place) {
    for (const char* keyword : {"anyOf", "oneOf"}) {
        if (schema.contains(keyword)) return translate_alternatives(schema, keyword, place);
    }
    if (schema.contains("enum") || schema.contains("const")) return translate_values(schema, place);
    const auto types = types_of(schema);
    if (!types) return at(place.at("type"), types.error());
    std::vector<NodeId> options;
    for (const std::string& type : *types) {
        const bool is_included = type == "integer" && std::find(types->begin(), types->end(), "number") != types->end();
        if (!is_included) options.push_back(TRY(translate_type(type, schema, place)));
    }
    return grammar_.choice(options);
}

Result<NodeId> SchemaTranslator::translate_alternatives(const Json& schema, const char* keyword, const Place& place) {
    const Json& written = schema.at(keyword);
    if (!written.is_array() || written.empty()) return error(place.at(keyword), "it is not a list of schemas");
    if (auto paid = algebra_.spend(written.size()); !paid) return at(place, paid.error());
    Json rest = Json::object();
    for (const auto& [name, value] : schema.items()) {
        if (!is_annotation(name) && name != keyword) rest[name] = value;
    }
    const bool is_alone = rest.empty();
    const bool exclusive = std::string_view(keyword) == "oneOf";
    std::vector<Json> flat;
    for (size_t i = 0; i < written.size() && (exclusive || !is_alone); ++i) {
        auto option = algebra_.flatten(written[i]);
        if (!option) return at(place.at(keyword, i), option.error());
        flat.push_back(std::move(*option));
    }
    std::vector<NodeId> options;
    for (size_t i = 0; i < written.size(); ++i) {
        Place option_place = place.at(keyword, i);
        std::optional<Json> changed;
        if (!is_alone) {
            option_place.merged = true;
            auto combined = algebra_.both(rest, flat[i]);
            if (!combined) return at(option_place, combined.error());
            changed = std::move(*combined);
        }
        if (exclusive) TRY(keep_apart(changed, flat, i, place.at(keyword)));
        options.push_back(TRY(translate(changed ? *changed : written[i], option_place)));
    }
    return grammar_.choice(options);
}

// A text that fits two options of oneOf would be wrong. So what we write for an option, with all that stands beside
// oneOf, must be valid for no other option; the option is narrowed where that is needed and possible.
Status SchemaTranslator::keep_apart(std::optional<Json>& option, const std::vector<Json>& all, size_t index,
                                    const Place& place) {
    for (size_t other = 0; other < all.size(); ++other) {
        if (other == index) continue;
        const Json& whole = option ? *option : all[index];
        const auto excludes = algebra_.excludes(whole, all[other]);
        if (!excludes) return at(place, excludes.error());
        if (*excludes) continue;
        auto narrowed = algebra_.narrow(whole, all[other]);
        if (!narrowed) return at(place, narrowed.error());
        if (!*narrowed) {
            return error(place, fmt::format("options {} and {} could both be valid for a value: use anyOf, or give "
                                            "them different types or different constants in a required property",
                                            std::min(index, other), std::max(index, other)));
        }
        option = std::move(**narrowed);
    }
    return Ok{};
}

Result<NodeId> SchemaTranslator::translate_values(const Json& schema, const Place& place) {
    const bool is_constant = schema.contains("const");
    const Json values = is_constant ? Json::array({schema.at("const")}) : schema.at("enum");
    if (!values.is_array() || (values.empty() && !place.merged)) {
        return error(place.at("enum"), "it is not a list of values");
    }
    Json rest = schema;
    rest.erase("const");
    if (!is_constant) rest.erase("enum");
    std::vector<NodeId> options;
    options.reserve(values.size());
    for (const Json& value : values) {
        const auto valid = algebra_.is_valid(value, rest);
        if (!valid) return error(place, "enum or const together with other constraints is not supported");
        if (grammar_.full()) return error(place, "it has too many values");
        const bool fits = place.form == Form::value || (place.form == Form::bare && value.is_string()) ||
                          (place.form == Form::arguments && value.is_object() && marks_ == nullptr);
        if (*valid && fits) options.push_back(pieces(place).value(value));
    }
    if (options.empty()) return impossible(place, "none of its values is valid for the rest of the schema");
    return grammar_.shared(grammar_.choice(options));
}

Result<Json> parse_schema(std::string_view text) {
    if (text.size() > kMaxSourceBytes) {
        return fail("schema: {} bytes are too large, {} are allowed", text.size(), kMaxSourceBytes);
    }
    TRY(check_members(text));
    Json schema = TRY(format::parse_ordered_json(text, "schema", {.depth = kMaxNesting}));
    TRY(resolve_references(schema));
    return schema;
}

Result<Grammar> translate_schema(std::string_view text) {
    const Json schema = TRY(parse_schema(text));
    Grammar grammar;
    JsonPieces json(grammar);
    grammar.set_root(TRY(SchemaTranslator(schema, json).run()));
    return grammar;
}

Grammar json_object_grammar() {
    Grammar grammar;
    const RuleId root = grammar.add_rule("root");
    const NodeId object = JsonPieces(grammar).any_object();
    grammar.define(root, object);
    grammar.set_root(root);
    return grammar;
}

}  // namespace tandem::text::grammar
