#include "text/grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tandem::text::grammar {

namespace {

const Json kTrue = true;
constexpr size_t kFewKeys = 16;  // of an object, so that looking for each of them takes no time

std::string_view type_of(const Json& value) {
    if (value.is_string()) return "string";
    if (value.is_boolean()) return "boolean";
    if (value.is_null()) return "null";
    if (value.is_object()) return "object";
    if (value.is_array()) return "array";
    const bool is_whole = value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>();
    return is_whole ? "integer" : "number";
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

bool is_of_type(const Json& value, const std::vector<std::string>& types) {
    const std::string_view type = type_of(value);
    return std::any_of(types.begin(), types.end(), [&](const std::string& allowed) {
        return allowed == type || (type == "integer" && allowed == "number");
    });
}

bool is_same(const Json& a, const Json& b) {
    if (!a.is_structured() || a.type() != b.type() || a.size() != b.size()) return a == b;
    if (a.is_array()) return std::equal(a.begin(), a.end(), b.begin(), is_same);
    if (a.size() > kFewKeys) return nlohmann::json(a) == nlohmann::json(b);  // which sorts its keys
    const auto& members = a.items();
    return std::all_of(members.begin(), members.end(), [&](const auto& member) {
        const auto other = b.find(member.key());
        return other != b.end() && is_same(member.value(), *other);
    });
}

bool contains(const Json& list, const Json& value) {
    return list.is_array() && std::any_of(list.begin(), list.end(), [&](const Json& v) { return is_same(v, value); });
}

std::optional<std::vector<Json>> listed_values(const Json& schema) {
    if (const Json* constant = keyword(schema, "const")) return std::vector<Json>{*constant};
    const Json* list = keyword(schema, "enum");
    if (list == nullptr || !list->is_array()) return std::nullopt;
    return std::vector<Json>(list->begin(), list->end());
}

const Json* property_schema(const Json& object, const std::string& name, bool strict) {
    if (object.contains("patternProperties")) return &kTrue;  // which we do not know
    const Json* properties = keyword(object, "properties");
    if (properties != nullptr && properties->is_object()) {
        const auto found = properties->find(name);
        if (found != properties->end()) return *found == false ? nullptr : &*found;
    }
    const Json* additional = keyword(object, "additionalProperties");
    if (additional != nullptr) return *additional == false ? nullptr : additional;
    const Json* required = keyword(object, "required");
    const bool names_its_own = properties != nullptr || (required != nullptr && !required->empty());
    return strict && names_its_own ? nullptr : &kTrue;
}

std::vector<std::string> required_names(const Json& object) {
    std::vector<std::string> names;
    const Json* required = keyword(object, "required");
    if (required == nullptr || !required->is_array()) return names;
    for (const Json& name : *required) {
        if (name.is_string()) names.push_back(name.get<std::string>());
    }
    return names;
}

Result<ItemSchemas> items_of(const Json& schema) {
    ItemSchemas all = {.prefix = keyword(schema, "prefixItems"), .rest = keyword(schema, "items")};
    if (all.rest != nullptr && all.rest->is_array()) {
        if (all.prefix != nullptr) return fail("items cannot be a list beside prefixItems: use prefixItems alone");
        all = {.prefix = all.rest, .rest = keyword(schema, "additionalItems")};
    }
    if (all.prefix != nullptr && !all.prefix->is_array()) return fail("prefixItems is not a list of schemas");
    return all;
}

std::optional<Json> limits_of_format(const Json& schema) {
    const Json* format = keyword(schema, "format");
    if (format == nullptr || !format->is_string()) return std::nullopt;
    const auto name = format->get<std::string>();
    for (const int bits : {8, 16, 32, 64}) {
        if (name == fmt::format("uint{}", bits))
            return bits == 64 ? Json{{"minimum", 0}} : Json{{"minimum", 0}, {"maximum", (int64_t{1} << bits) - 1}};
        if (name != fmt::format("int{}", bits)) continue;
        const int64_t end = int64_t{1} << (bits == 64 ? 62 : bits - 1);
        return bits == 64 ? Json::object() : Json{{"minimum", -end}, {"maximum", end - 1}};
    }
    return std::nullopt;
}

}  // namespace tandem::text::grammar
