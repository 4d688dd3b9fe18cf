#include "text/grammar/schema_algebra.h"

#include <algorithm>

#include "text/grammar/limits.h"
#include "text/grammar/schema_references.h"

namespace tandem::text::grammar {

namespace {

constexpr size_t kMaxOptions = 64;    // of two anyOf or oneOf taken together
constexpr size_t kMaxWork = 150'000;  // values copied or compared

size_t count_values(const Json& value) {
    size_t count = 1;
    if (value.is_structured()) {
        for (const Json& part : value) count += count_values(part);
    }
    return count;
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
    if (a == false || b == false) return false;
    if (a == true || a == b) return b;
    if (b == true) return a;
    return {{"allOf", Json::array({a, b})}};
}

// Where one of them says nothing, the other.
std::optional<Json> all_of(const Json* a, const Json* b) {
    if (a == nullptr && b == nullptr) return std::nullopt;
    return a == nullptr ? *b : b == nullptr ? *a : all_of(*a, *b);
}

Error not_combinable(std::string_view name) {
    return fail("two different values of '{}' cannot be combined: write the schema without allOf or siblings of $ref",
                name);
}

bool is_about_members(std::string_view name) {
    return name == "properties" || name == "additionalProperties";
}

bool is_about_items(std::string_view name) {
    return name == "items" || name == "prefixItems" || name == "additionalItems";
}

}  // namespace

Status SchemaAlgebra::spend(size_t work) {
    spent_ += work;
    if (spent_ > kMaxWork) return fail("the schema is too complex: use fewer alternatives, references or allOf");
    return Ok{};
}

Result<const Json*> SchemaAlgebra::find(std::string_view reference) const {
    if (!reference.starts_with("#")) {
        return fail("'{}' is not supported: refer to a part of the schema itself, as in #/$defs/name",
                    reference.substr(0, 200));
    }
    const bool is_pointer = reference.size() == 1 || reference[1] == '/';
    const Json* found = is_pointer ? find_pointer(root_, reference.substr(1)) : nullptr;
    if (found == nullptr) return fail("'{}' is not in the schema", reference.substr(0, 200));
    return found;
}

Result<Json> SchemaAlgebra::flatten(const Json& schema, int depth) {
    if (depth > kMaxNesting) return fail("$ref and allOf lead to each other too often");
    TRY(spend(1));
    if (schema.is_boolean()) return schema;
    if (!schema.is_object()) return fail("a schema is an object or a boolean, not {}", schema.type_name());
    Json flat = Json::object();
    for (const auto& [name, value] : schema.items()) {
        if (is_annotation(name) || name == "allOf" || name == "$ref") continue;
        TRY(spend(count_values(value)));
        flat[name] = value;
    }
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
    if (is_same(mine, value)) return Ok{};
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
    } else if (name == "enum" && mine.is_array() && value.is_array()) {
        TRY(spend(mine.size() * value.size()));
        Json kept = Json::array();
        for (const Json& option : mine) {
            if (contains(value, option)) kept.push_back(option);
        }
        mine = std::move(kept);
    } else if (name == "const") {
        a["enum"] = Json::array();
    } else if (name == "uniqueItems" && mine.is_boolean() && value.is_boolean()) {
        mine = true;
    } else if (name == "propertyNames") {
        mine = all_of(mine, value);
    } else if (name == "anyOf" || name == "oneOf") {
        return merge_options(a, name, value);
    } else {
        return not_combinable(name);
    }
    return Ok{};
}

// One of these and one of those is one of the pairs; exactly one of each is exactly one pair.
Status SchemaAlgebra::merge_options(Json& a, const std::string& name, const Json& value) {
    const Json mine = std::move(a[name]);
    if (!mine.is_array() || !value.is_array() || mine.size() * value.size() > kMaxOptions) return not_combinable(name);
    TRY(spend(count_values(mine) * value.size() + count_values(value) * mine.size()));
    Json pairs = Json::array();
    for (const Json& one : mine) {
        for (const Json& other : value) pairs.push_back(all_of(one, other));
    }
    a[name] = std::move(pairs);
    return Ok{};
}

// A property that only one side declares is an additional one to the other.
Status SchemaAlgebra::merge_properties(Json& a, const Json& b) {
    if (!b.contains("properties") && !b.contains("additionalProperties")) return Ok{};
    Json merged = Json::object();
    for (const Json* side : {static_cast<const Json*>(&a), &b}) {
        const Json* properties = keyword(*side, "properties");
        if (properties == nullptr) continue;
        if (!properties->is_object()) return fail("properties is not an object");
        for (const auto& [name, schema] : properties->items()) {
            if (merged.contains(name)) continue;
            const Json* other = property_schema(side == &a ? b : a, name, false);
            merged[name] = other == nullptr ? Json(false) : all_of(schema, *other);
        }
    }
    TRY(spend(count_values(merged)));
    auto additional = all_of(keyword(a, "additionalProperties"), keyword(b, "additionalProperties"));
    if (a.contains("properties") || b.contains("properties")) a["properties"] = std::move(merged);
    if (additional) a["additionalProperties"] = std::move(*additional);
    return Ok{};
}

// An item that only one side has a place for is one of the rest to the other.
Status SchemaAlgebra::merge_items(Json& a, const Json& b) {
    const ItemSchemas mine = TRY(items_of(a));
    const ItemSchemas others = TRY(items_of(b));
    if (others.prefix == nullptr && others.rest == nullptr) return Ok{};
    Json prefix = Json::array();
    for (size_t i = 0; i < std::max(mine.size(), others.size()); ++i) {
        prefix.push_back(all_of(mine.at(i), others.at(i)).value_or(true));
    }
    TRY(spend(count_values(prefix)));
    auto rest = all_of(mine.rest, others.rest);
    for (const char* name : {"prefixItems", "items", "additionalItems"}) a.erase(name);
    if (!prefix.empty()) a["prefixItems"] = std::move(prefix);
    if (rest) a["items"] = std::move(*rest);
    return Ok{};
}

Result<Json> SchemaAlgebra::both(Json a, const Json& b) {
    TRY(spend(count_values(b)));
    if (a == false || b == false) return Json(false);
    if (b == true) return a;
    if (a == true) return b;
    TRY(merge_properties(a, b));
    TRY(merge_items(a, b));
    for (const auto& [name, value] : b.items()) {
        if (is_annotation(name) || is_about_members(name) || is_about_items(name)) continue;
        if (a.contains(name))
            TRY(merge_keyword(a, name, value));
        else
            a[name] = value;
    }
    return a;
}

}  // namespace tandem::text::grammar
