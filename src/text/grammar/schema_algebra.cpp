#include "text/grammar/schema_algebra.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/grammar/limits.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

constexpr size_t kMaxWork = 150'000;  // values copied or compared

size_t count_values(const Json& value) {
    size_t count = 1;
    if (value.is_structured()) {
        for (const Json& part : value) count += count_values(part);
    }
    return count;
}

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') return (c | 0x20) - 'a' + 10;
    return std::nullopt;
}

// "%25" -> "%", "~1" -> "/", "~0" -> "~"
std::string unescape_pointer(std::string_view part) {
    std::string percent;
    for (size_t i = 0; i < part.size(); ++i) {
        const auto high = part[i] == '%' && i + 2 < part.size() ? hex_digit(part[i + 1]) : std::nullopt;
        const auto low = high ? hex_digit(part[i + 2]) : std::nullopt;
        if (low) {
            percent += static_cast<char>(*high * 16 + *low);
            i += 2;
        } else {
            percent += part[i];
        }
    }
    return replace_all(replace_all(percent, "~1", "/"), "~0", "~");
}

const Json kTrue = true;

std::string_view type_of(const Json& value) {
    if (value.is_string()) return "string";
    if (value.is_boolean()) return "boolean";
    if (value.is_null()) return "null";
    if (value.is_object()) return "object";
    if (value.is_array()) return "array";
    const bool is_whole = value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
    return is_whole ? "integer" : "number";
}

bool is_of_type(const Json& value, const std::vector<std::string>& types) {
    const std::string_view type = type_of(value);
    return std::any_of(types.begin(), types.end(), [&](const std::string& allowed) {
        return allowed == type || (type == "integer" && allowed == "number");
    });
}

size_t length_of(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Types that both allow; a whole number is a number too.
std::vector<std::string> common_types(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    std::vector<std::string> common;
    const auto has = [](const std::vector<std::string>& types, std::string_view type) {
        return std::find(types.begin(), types.end(), type) != types.end();
    };
    for (const std::string& type : a) {
        if (has(b, type) || (type == "integer" && has(b, "number")))
            common.push_back(type);
        else if (type == "number" && has(b, "integer"))
            common.emplace_back("integer");
    }
    return common;
}

std::optional<std::vector<Json>> listed_values(const Json& schema) {
    if (const Json* constant = keyword(schema, "const")) return std::vector<Json>{*constant};
    const Json* list = keyword(schema, "enum");
    if (list == nullptr || !list->is_array()) return std::nullopt;
    return std::vector<Json>(list->begin(), list->end());
}

bool contains(const Json& list, const Json& value) {
    return list.is_array() && std::find(list.begin(), list.end(), value) != list.end();
}

// The largest lower and the smallest upper bound, with "exclusive" ones taken as bounds.
std::optional<double> bound(const Json& schema, const char* inclusive, const char* exclusive) {
    for (const char* name : {inclusive, exclusive}) {
        const Json* value = keyword(schema, name);
        if (value != nullptr && value->is_number()) return value->get<double>();
    }
    return std::nullopt;
}

bool lies_below(const Json& a, const Json& b) {
    const auto top = bound(a, "maximum", "exclusiveMaximum");
    const auto bottom = bound(b, "minimum", "exclusiveMinimum");
    if (!top || !bottom) return false;
    const bool touches = a.contains("maximum") && b.contains("minimum");
    return *top < *bottom || (*top == *bottom && !touches);
}

bool both_mean_the_larger(std::string_view name) {
    return name == "minimum" || name == "exclusiveMinimum" || name == "minLength" || name == "minItems" ||
           name == "minProperties";
}

bool both_mean_the_smaller(std::string_view name) {
    return name == "maximum" || name == "exclusiveMaximum" || name == "maxLength" || name == "maxItems" ||
           name == "maxProperties";
}

Json all_of(const Json& a, const Json& b) {
    if (a == b) return a;
    return {{"allOf", Json::array({a, b})}};
}

// The object keywords speak about each other: a property that only one side declares is an additional one to the other.
Json merge_properties(const Json& a, const Json& b) {
    Json merged = Json::object();
    const auto side = [](const Json& schema) {
        const Json* properties = keyword(schema, "properties");
        return properties != nullptr && properties->is_object() ? *properties : Json::object();
    };
    const Json of_a = side(a);
    const Json of_b = side(b);
    for (const auto& [name, schema] : of_a.items()) {
        const Json* other = property_schema(b, name, false);
        merged[name] = other == nullptr ? Json(false) : all_of(schema, *other);
    }
    for (const auto& [name, schema] : of_b.items()) {
        if (merged.contains(name)) continue;
        const Json* other = property_schema(a, name, false);
        merged[name] = other == nullptr ? Json(false) : all_of(*other, schema);
    }
    return merged;
}

}  // namespace

const Json* keyword(const Json& schema, const char* name) {
    const auto found = schema.find(name);
    return found == schema.end() ? nullptr : &*found;
}

bool is_annotation(std::string_view name) {
    static constexpr std::array<std::string_view, 27> kAnnotations = {"title",
                                                                      "description",
                                                                      "default",
                                                                      "examples",
                                                                      "example",
                                                                      "$schema",
                                                                      "$id",
                                                                      "id",
                                                                      "$anchor",
                                                                      "$comment",
                                                                      "$defs",
                                                                      "definitions",
                                                                      "deprecated",
                                                                      "readOnly",
                                                                      "writeOnly",
                                                                      "contentMediaType",
                                                                      "contentEncoding",
                                                                      "contentSchema",
                                                                      "discriminator",
                                                                      "nullable",
                                                                      "externalDocs",
                                                                      "xml",
                                                                      "$vocabulary",
                                                                      "markdownDescription",
                                                                      "enumNames",
                                                                      "strict",
                                                                      "propertyOrdering"};
    return name.starts_with("x-") || std::find(kAnnotations.begin(), kAnnotations.end(), name) != kAnnotations.end();
}

bool has_constraints(const Json& schema) {
    const auto& members = schema.items();
    return std::any_of(members.begin(), members.end(), [](const auto& member) { return !is_annotation(member.key()); });
}

Result<std::vector<std::string>> types_of(const Json& schema) {
    static const std::vector<std::string> all_types = {"object", "array", "string", "number", "boolean", "null"};
    std::vector<std::string> types;
    if (const Json* written = keyword(schema, "type")) {
        const Json list = written->is_array() ? *written : Json::array({*written});
        for (const Json& type : list) {
            const bool known =
                type.is_string() && (type == "integer" || std::find(all_types.begin(), all_types.end(),
                                                                    type.get<std::string>()) != all_types.end());
            if (!known) return fail("unknown type {}", type.dump().substr(0, 80));
            types.push_back(type.get<std::string>());
        }
        return types;
    }
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 22> kSpeakAbout = {{
        {"properties", "object"},
        {"required", "object"},
        {"additionalProperties", "object"},
        {"minProperties", "object"},
        {"maxProperties", "object"},
        {"propertyNames", "object"},
        {"items", "array"},
        {"prefixItems", "array"},
        {"additionalItems", "array"},
        {"minItems", "array"},
        {"maxItems", "array"},
        {"uniqueItems", "array"},
        {"pattern", "string"},
        {"format", "string"},
        {"minLength", "string"},
        {"maxLength", "string"},
        {"minimum", "number"},
        {"maximum", "number"},
        {"exclusiveMinimum", "number"},
        {"exclusiveMaximum", "number"},
        {"multipleOf", "number"},
        {"", ""},
    }};
    for (const std::string& type : all_types) {
        const bool spoken_of = std::any_of(kSpeakAbout.begin(), kSpeakAbout.end(), [&](const auto& pair) {
            return pair.second == type && schema.contains(std::string(pair.first));
        });
        if (spoken_of) types.push_back(type);
    }
    return types.empty() ? all_types : types;
}

const Json* property_schema(const Json& object, const std::string& name, bool strict) {
    const Json* properties = keyword(object, "properties");
    if (properties != nullptr && properties->is_object()) {
        const auto found = properties->find(name);
        if (found != properties->end()) return *found == false ? nullptr : &*found;
    }
    const Json* additional = keyword(object, "additionalProperties");
    if (additional != nullptr) return *additional == false ? nullptr : additional;
    return strict && properties != nullptr ? nullptr : &kTrue;
}

Status SchemaAlgebra::spend(size_t work) {
    spent_ += work;
    if (spent_ > kMaxWork) return fail("the schema is too complex: use fewer alternatives, references or allOf");
    return Ok{};
}

Result<const Json*> SchemaAlgebra::find(std::string_view reference) const {
    if (reference == "#") return &root_;
    if (!reference.starts_with("#/")) {
        return fail("'{}' is not supported: refer to a part of the schema itself, as in #/$defs/name",
                    reference.substr(0, 200));
    }
    const Json* at = &root_;
    for (std::string_view rest = reference.substr(1); !rest.empty();) {
        rest.remove_prefix(1);
        const std::string part = unescape_pointer(rest.substr(0, rest.find('/')));
        rest.remove_prefix(std::min(rest.find('/'), rest.size()));
        const Json* next = nullptr;
        if (at->is_object() && at->contains(part)) next = &at->at(part);
        if (at->is_array() && !part.empty() && part.size() < 6 &&
            part.find_first_not_of("0123456789") == std::string::npos) {
            const auto index = static_cast<size_t>(std::stoul(part));
            if (index < at->size()) next = &at->at(index);
        }
        if (next == nullptr) return fail("'{}' is not in the schema", reference.substr(0, 200));
        at = next;
    }
    return at;
}

Result<Json> SchemaAlgebra::flatten(const Json& schema, int depth) {
    if (depth > kMaxNesting) return fail("$ref and allOf lead to each other too often");
    TRY(spend(count_values(schema)));
    if (schema.is_boolean()) return schema;
    if (!schema.is_object()) return fail("a schema is an object or a boolean, not {}", schema.type_name());
    Json flat = schema;
    flat.erase("allOf");
    flat.erase("$ref");
    if (const Json* reference = keyword(schema, "$ref")) {
        if (!reference->is_string()) return fail("$ref is not a string");
        const Json* target = TRY(find(reference->get<std::string>()));
        const Json other = TRY(flatten(*target, depth + 1));
        flat = TRY(both(std::move(flat), other));
    }
    if (const Json* parts = keyword(schema, "allOf")) {
        if (!parts->is_array()) return fail("allOf is not a list");
        for (const Json& part : *parts) {
            const Json other = TRY(flatten(part, depth + 1));
            flat = TRY(both(std::move(flat), other));
        }
    }
    return flat;
}

Status SchemaAlgebra::merge_keyword(Json& a, const std::string& name, const Json& value) {
    Json& mine = a[name];
    if (mine == value || is_annotation(name)) return Ok{};
    if (name == "type") {
        const auto types = TRY(types_of(a));
        const auto others = TRY(types_of({{"type", value}}));
        mine = common_types(types, others);
    } else if (name == "required" && mine.is_array() && value.is_array()) {
        for (const Json& required : value) {
            if (!contains(mine, required)) mine.push_back(required);
        }
    } else if (both_mean_the_larger(name) && mine.is_number() && value.is_number()) {
        mine = std::max(mine, value);
    } else if (both_mean_the_smaller(name) && mine.is_number() && value.is_number()) {
        mine = std::min(mine, value);
    } else if (name == "enum" && mine.is_array()) {
        Json kept = Json::array();
        for (const Json& option : mine) {
            if (contains(value, option)) kept.push_back(option);
        }
        mine = std::move(kept);
    } else if (name == "const") {
        a["enum"] = Json::array();
    } else if (name == "items" || name == "additionalProperties" || name == "propertyNames") {
        mine = all_of(mine, value);
    } else {
        return fail(
            "two different values of '{}' cannot be combined: write the schema without allOf or siblings of $ref",
            name);
    }
    return Ok{};
}

Result<Json> SchemaAlgebra::both(Json a, const Json& b) {
    TRY(spend(count_values(b)));
    if (a == false || b == false) return Json(false);
    if (b == true) return a;
    if (a == true) return b;
    if (a.contains("properties") || b.contains("properties")) {
        Json properties = merge_properties(a, b);
        TRY(spend(count_values(properties)));
        a["properties"] = std::move(properties);
    }
    for (const auto& [name, value] : b.items()) {
        if (name == "properties") continue;
        if (a.contains(name))
            TRY(merge_keyword(a, name, value));
        else
            a[name] = value;
    }
    return a;
}

std::optional<bool> SchemaAlgebra::is_valid(const Json& value, const Json& schema) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object()) return std::nullopt;
    bool certain = true;
    for (const auto& [name, wanted] : schema.items()) {
        if (is_annotation(name)) continue;
        if (name == "type") {
            const auto types = types_of({{"type", wanted}});
            if (!types) return std::nullopt;
            if (!is_of_type(value, *types)) return false;
        } else if (name == "enum") {
            if (!contains(wanted, value)) return false;
        } else if (name == "const") {
            if (wanted != value) return false;
        } else if (wanted.is_number() && value.is_number() && name == "minimum") {
            if (value < wanted) return false;
        } else if (wanted.is_number() && value.is_number() && name == "maximum") {
            if (value > wanted) return false;
        } else if (wanted.is_number_unsigned() && value.is_string() && name == "minLength") {
            if (length_of(value.get<std::string>()) < wanted.get<size_t>()) return false;
        } else if (wanted.is_number_unsigned() && value.is_string() && name == "maxLength") {
            if (length_of(value.get<std::string>()) > wanted.get<size_t>()) return false;
        } else {
            certain = false;
        }
    }
    if (!certain) return std::nullopt;
    return true;
}

Result<bool> SchemaAlgebra::excludes(const Json& a, const Json& b, int depth) {
    TRY(spend(1));
    if (a == false || b == false) return true;
    if (!a.is_object() || !b.is_object() || depth > 8) return false;
    if (const auto values = listed_values(a)) {
        TRY(spend(values->size()));
        return std::all_of(values->begin(), values->end(), [&](const Json& value) {
            return is_valid(value, a) == false || is_valid(value, b) == false;
        });
    }
    std::vector<std::string> types_of_b = TRY(types_of(b));
    // Without "type" other values are valid too: we only do not write them.
    if (!b.contains("type")) types_of_b = TRY(types_of(Json::object()));
    const auto values = listed_values(b);
    const auto types_of_a = TRY(types_of(a));
    for (const std::string& type : common_types(types_of_a, types_of_b)) {
        if (values) {
            TRY(spend(values->size()));
            if (std::none_of(values->begin(), values->end(),
                             [&](const Json& value) { return is_of_type(value, {type}); }))
                continue;
        }
        if (type == "object" && TRY(excludes_object(a, b, depth))) continue;
        if ((type == "integer" || type == "number") && (lies_below(a, b) || lies_below(b, a))) continue;
        return false;
    }
    return true;
}

Result<bool> SchemaAlgebra::excludes_object(const Json& a, const Json& b, int depth) {
    static const Json no_names = Json::array();
    const Json* required_by_a = keyword(a, "required");
    const Json* required_by_b = keyword(b, "required");
    for (const Json& name : required_by_b != nullptr ? *required_by_b : no_names) {
        if (name.is_string() && !contains(required_by_a != nullptr ? *required_by_a : no_names, name) &&
            property_schema(a, name.get<std::string>(), true) == nullptr)
            return true;
    }
    for (const Json& name : required_by_a != nullptr ? *required_by_a : no_names) {
        if (!name.is_string()) continue;
        const Json* mine = property_schema(a, name.get<std::string>(), false);
        const Json* other = property_schema(b, name.get<std::string>(), false);
        if (mine == nullptr || other == nullptr) return true;
        const Json flat = TRY(flatten(*mine));
        const Json other_flat = TRY(flatten(*other));
        if (TRY(excludes(flat, other_flat, depth + 1))) return true;
    }
    return false;
}

}  // namespace tandem::text::grammar
