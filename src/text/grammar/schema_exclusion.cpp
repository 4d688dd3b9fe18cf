// Whether two schemas exclude each other: what oneOf needs to know.
#include <algorithm>
#include <cmath>

#include "text/grammar/schema_algebra.h"

namespace tandem::text::grammar {

namespace {

constexpr size_t kMaxCases = 64;
constexpr int kMaxExclusionDepth = 8;
constexpr size_t kMaxComparedItems = 16;

// The bound of "maximum" or "exclusiveMaximum"; the looser one of both would be enough.
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

// One of them has at most so many characters, items or properties, the other needs more.
bool counts_differ(const Json& a, const Json& b, const char* least, const char* most) {
    const auto is_above = [&](const Json& more, const Json& fewer) {
        const Json* bottom = keyword(more, least);
        const Json* top = keyword(fewer, most);
        return bottom != nullptr && top != nullptr && bottom->is_number() && top->is_number() && *bottom > *top;
    };
    return is_above(a, b) || is_above(b, a);
}

size_t least_items(const Json& schema) {
    const Json* least = keyword(schema, "minItems");
    const double count = least != nullptr && least->is_number() ? least->get<double>() : 0;
    return count > 0 ? static_cast<size_t>(std::min(count, static_cast<double>(kMaxComparedItems))) : 0;
}

bool is_plain(const Json& schema) {
    return !schema.is_object() || (!schema.contains("$ref") && !schema.contains("allOf") && !schema.contains("anyOf") &&
                                   !schema.contains("oneOf"));
}

}  // namespace

// The schema as several without anyOf and oneOf at the top: what is valid for it is valid for one of them, and what we
// write for it we write for one of them. Nothing when they are too many.
Result<SchemaAlgebra::Cases> SchemaAlgebra::cases(const Json& schema) {
    std::vector<Json> open = {TRY(flatten(schema))};
    std::vector<Json> all;
    while (!open.empty()) {
        if (open.size() + all.size() > kMaxCases) return Cases();
        Json next = std::move(open.back());
        open.pop_back();
        const bool is_choice = next.is_object() && (next.contains("anyOf") || next.contains("oneOf"));
        if (!is_choice) {
            if (next != false) all.push_back(std::move(next));
            continue;
        }
        const char* name = next.contains("anyOf") ? "anyOf" : "oneOf";
        const Json options = next.at(name);
        if (!options.is_array()) return fail("{} is not a list of schemas", name);
        next.erase(name);
        for (const Json& option : options) {
            const Json flat = TRY(flatten(option));
            open.push_back(TRY(both(next, flat)));
        }
    }
    return Cases(std::move(all));
}

Result<bool> SchemaAlgebra::excludes(const Json& a, const Json& b, int depth) {
    TRY(spend(1));
    if (depth > kMaxExclusionDepth) return false;
    if (is_plain(a) && is_plain(b)) return excludes_case(a, b, depth);
    const Cases cases_of_a = TRY(cases(a));
    const Cases cases_of_b = TRY(cases(b));
    if (!cases_of_a || !cases_of_b) return false;
    for (const Json& one : *cases_of_a) {
        for (const Json& other : *cases_of_b) {
            if (!TRY(excludes_case(one, other, depth))) return false;
        }
    }
    return true;
}

Result<std::optional<Json>> SchemaAlgebra::narrow(const Json& a, const Json& b) {
    if (!a.is_object() || !b.is_object()) return std::optional<Json>();
    // {"required": ["b"]} is excluded by never writing a "b" that may be left out.
    const std::vector<std::string> mine = required_names(a);
    const std::vector<std::string> others = required_names(b);
    const auto name = std::find_if(others.begin(), others.end(), [&](const std::string& other) {
        return std::find(mine.begin(), mine.end(), other) == mine.end();
    });
    if (name == others.end()) return std::optional<Json>();
    Json narrowed = a;
    narrowed["properties"][*name] = false;
    // Other types would not be written any more, if only the new keyword speaks about objects.
    const bool has_same_types = TRY(types_of(narrowed)) == TRY(types_of(a));
    if (!has_same_types || !TRY(excludes(narrowed, b))) return std::optional<Json>();
    return std::optional<Json>(std::move(narrowed));
}

Result<bool> SchemaAlgebra::excludes_case(const Json& a, const Json& b, int depth) {
    TRY(spend(1));
    if (a == false || b == false) return true;
    if (!a.is_object() || !b.is_object()) return false;
    if (const auto values = listed_values(a)) return excludes_listed(*values, a, b);
    const auto values = listed_values(b);
    if (values && TRY(excludes_listed(*values, a, b))) return true;
    std::vector<std::string> types_of_b = TRY(types_of(b));
    // Without "type" other values are valid too: we only do not write them.
    if (!b.contains("type")) types_of_b = TRY(types_of(Json::object()));
    const auto types_of_a = TRY(types_of(a));
    for (const std::string& type : common_types(types_of_a, types_of_b)) {
        if (!TRY(excludes_type(type, a, b, depth))) return false;
    }
    return true;
}

// None of the values is valid for both.
Result<bool> SchemaAlgebra::excludes_listed(const std::vector<Json>& values, const Json& a, const Json& b) {
    TRY(spend(values.size()));
    return std::all_of(values.begin(), values.end(),
                       [&](const Json& value) { return is_valid(value, a) == false || is_valid(value, b) == false; });
}

Result<bool> SchemaAlgebra::excludes_type(const std::string& type, const Json& a, const Json& b, int depth) {
    if (type == "object")
        return counts_differ(a, b, "minProperties", "maxProperties") || TRY(excludes_object(a, b, depth));
    if (type == "array") return counts_differ(a, b, "minItems", "maxItems") || TRY(excludes_array(a, b, depth));
    if (type == "string") return counts_differ(a, b, "minLength", "maxLength");
    if (type == "integer" || type == "number") return lies_below(a, b) || lies_below(b, a);
    return false;
}

// A property that one of them requires is forbidden by the other, or has other values there.
Result<bool> SchemaAlgebra::excludes_object(const Json& a, const Json& b, int depth) {
    const std::vector<std::string> required_by_a = required_names(a);
    std::vector<std::string> names = required_names(b);
    TRY(spend(names.size() + required_by_a.size()));
    for (const std::string& name : names) {
        const bool is_optional = std::find(required_by_a.begin(), required_by_a.end(), name) == required_by_a.end();
        if (is_optional && property_schema(a, name, true) == nullptr) return true;
    }
    names.insert(names.end(), required_by_a.begin(), required_by_a.end());
    for (const std::string& name : names) {
        const Json* mine = property_schema(a, name, false);
        const Json* other = property_schema(b, name, false);
        if (mine == nullptr || other == nullptr || TRY(excludes(*mine, *other, depth + 1))) return true;
    }
    return false;
}

// An item that one of them must have has other values in the other.
Result<bool> SchemaAlgebra::excludes_array(const Json& a, const Json& b, int depth) {
    const ItemSchemas mine = TRY(items_of(a));
    const ItemSchemas others = TRY(items_of(b));
    const size_t count = std::max(least_items(a), least_items(b));
    for (size_t i = 0; i < count; ++i) {
        const Json* one = mine.at(i);
        const Json* other = others.at(i);
        if (one != nullptr && other != nullptr && TRY(excludes(*one, *other, depth + 1))) return true;
    }
    return false;
}

}  // namespace tandem::text::grammar
