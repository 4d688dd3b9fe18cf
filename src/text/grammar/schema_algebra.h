// What can be said about JSON Schemas without translating them: both at once, never both, a value and a schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/schema_keywords.h"

namespace tandem::text::grammar {

// Resolves $ref and allOf and decides oneOf, for one whole schema; counts its work, so that no schema takes long.
//
// Where two schemas meet, keywords that speak about each other are taken together: "items" is about the items that the
// prefixItems beside it leave over, additionalProperties about the names that the properties beside it leave over.
class SchemaAlgebra {
  public:
    explicit SchemaAlgebra(const Json& root) : root_(root) {}

    // What a $ref points to.
    Result<const Json*> find(std::string_view reference) const;

    // The schema without $ref and allOf at its top: valid for the same values.
    Result<Json> flatten(const Json& schema, int depth = 0);
    // Valid where both are; both are flat.
    Result<Json> both(Json a, const Json& b);

    // No value we write for `a` is valid for `b`: true only when it is certain. (schema_exclusion.cpp)
    Result<bool> excludes(const Json& a, const Json& b, int depth = 0);
    // `a` with less to write, so that it excludes `b`; nothing when no way is found. Both are flat.
    Result<std::optional<Json>> narrow(const Json& a, const Json& b);

    // Nothing when it cannot tell. (schema_values.cpp)
    std::optional<bool> is_valid(const Json& value, const Json& schema, int depth = 0);

    Status spend(size_t work);

  private:
    // A schema that stands for others has anyOf and oneOf at its top.
    using Cases = std::optional<std::vector<Json>>;

    Status merge_keyword(Json& a, const std::string& keyword, const Json& value);
    Status merge_options(Json& a, const std::string& keyword, const Json& value);
    Status merge_properties(Json& a, const Json& b);
    Status merge_items(Json& a, const Json& b);

    Result<Cases> cases(const Json& schema);
    Result<bool> excludes_case(const Json& a, const Json& b, int depth);
    Result<bool> excludes_listed(const std::vector<Json>& values, const Json& a, const Json& b);
    Result<bool> excludes_type(const std::string& type, const Json& a, const Json& b, int depth);
    Result<bool> excludes_object(const Json& a, const Json& b, int depth);
    Result<bool> excludes_array(const Json& a, const Json& b, int depth);

    struct Assertion {
        const Json& schema;
        const std::string& name;
        const Json& wanted;
        int depth = 0;
    };
    std::optional<bool> holds(const Json& value, const Assertion& assertion);
    std::optional<bool> holds_combined(const Json& value, const Assertion& assertion);
    std::optional<bool> holds_array(const Json& value, const Assertion& assertion);
    std::optional<bool> holds_object(const Json& value, const Assertion& assertion);

    const Json& root_;
    size_t spent_ = 0;
};

}  // namespace tandem::text::grammar
