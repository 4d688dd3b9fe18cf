// What the keywords of one JSON Schema mean, taken by itself: nothing here follows a $ref or compares two schemas.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text::grammar {

using Json = nlohmann::ordered_json;

// The value of a keyword, or null.
const Json* keyword(const Json& schema, const char* name);

// Keywords that say nothing about which values are valid.
bool is_annotation(std::string_view keyword);

// The types a value may have: from "type", or those that the keywords speak about; all when there are none.
Result<std::vector<std::string>> types_of(const Json& schema);
// Types that both allow; a whole number is a number too.
std::vector<std::string> common_types(const std::vector<std::string>& a, const std::vector<std::string>& b);
bool is_of_type(const Json& value, const std::vector<std::string>& types);

// As JSON Schema compares them: the order of keys does not matter, and 1 is 1.0.
bool is_same(const Json& a, const Json& b);
bool contains(const Json& list, const Json& value);
// Those of "const" or "enum"; nothing without them.
std::optional<std::vector<Json>> listed_values(const Json& schema);

// The schema of a property of an object: declared, or as additionalProperties says. Null when it may not be there;
// `strict`: also when we would not write it, although it may be.
const Json* property_schema(const Json& object, const std::string& name, bool strict);
// The names that it requires; none where that is no list of names.
std::vector<std::string> required_names(const Json& object);

// Those of the first items, and of all after them; null where nothing is said. "items" as a list is what "prefixItems"
// was before 2020, with "additionalItems" for the rest.
struct ItemSchemas {
    const Json* prefix = nullptr;
    const Json* rest = nullptr;

    const Json* at(size_t index) const { return index < size() ? &(*prefix)[index] : rest; }
    size_t size() const { return prefix == nullptr ? 0 : prefix->size(); }
};
Result<ItemSchemas> items_of(const Json& schema);

// Of "int32" and its like, which OpenAPI has for numbers: they are whole, and within the bounds that are returned. All
// that we write fits into 64 bits.
std::optional<Json> limits_of_format(const Json& schema);

}  // namespace tandem::text::grammar
