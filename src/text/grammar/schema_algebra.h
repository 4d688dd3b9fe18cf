// What can be said about JSON Schemas without translating them: both at once, never both, a value and a schema.
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
bool has_constraints(const Json& schema);

// The types a value may have: from "type", or those that the keywords speak about; all when there are none.
Result<std::vector<std::string>> types_of(const Json& schema);

// Resolves $ref and allOf and decides oneOf, for one whole schema; counts its work, so that no schema takes long.
class SchemaAlgebra {
  public:
    explicit SchemaAlgebra(const Json& root) : root_(root) {}

    // What a $ref points to.
    Result<const Json*> find(std::string_view reference) const;

    // The schema without $ref and allOf at its top: valid for the same values.
    Result<Json> flatten(const Json& schema, int depth = 0);
    // Valid where both are; both are flat.
    Result<Json> both(Json a, const Json& b);

    // No value we write for `a` is valid for `b`: true only when it is certain. Both are flat.
    Result<bool> excludes(const Json& a, const Json& b, int depth = 0);

    // Nothing when it cannot tell.
    static std::optional<bool> is_valid(const Json& value, const Json& schema);

    Status spend(size_t work);

  private:
    Status merge_keyword(Json& a, const std::string& keyword, const Json& value);
    Result<bool> excludes_object(const Json& a, const Json& b, int depth);

    const Json& root_;
    size_t spent_ = 0;
};

// The schema of a property of an object: declared, or as additionalProperties says. Null when it may not be there;
// `strict`: also when we would not write it, although it may be.
const Json* property_schema(const Json& object, const std::string& name, bool strict);

}  // namespace tandem::text::grammar
